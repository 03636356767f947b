import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.text import Text

from engine.errors import SvcError
from engine.lane import BuildFailed, Diagnostic
from engine.manifest.problems import ManifestError, ManifestProblem
from svc_tui.terminal import stderr
from svc_tui.terminal.stderr import ExitCode


def rendered(capsys: pytest.CaptureFixture[str], error: SvcError) -> str:
    stderr.set_color("never")
    stderr.render(error)
    written = capsys.readouterr()
    assert written.out == ""
    return written.err


def test_render_writes_message_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert rendered(capsys, SvcError("the thing broke", "Mend it.")) == (
        "error: the thing broke\n  hint: Mend it.\n"
    )


def test_render_of_a_manifest_error_writes_line_key_message_and_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = ManifestError(
        Path("/x/svc.toml"),
        [
            ManifestProblem(7, 1, 'a."/x"', "wrong", "Do this."),
            ManifestProblem(0, 0, "", "odd"),
            ManifestProblem(4, 2, "b", "bad"),
        ],
    )
    assert rendered(capsys, error) == (
        "error: svc.toml has 3 mistakes\n"
        "  svc.toml  odd\n"
        "  svc.toml:4  b  bad\n"
        '  svc.toml:7  a."/x"  wrong\n'
        "      Do this.\n"
    )


def test_render_of_a_failed_build_writes_positions_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    diagnostic = Diagnostic("Expected ;", "api/src/index.js", 3, 9, "  3 | let x = = 1;\n    |         ^")
    error = BuildFailed("resource api does not build", diagnostics=(diagnostic,), output="not shown")
    assert rendered(capsys, error) == (
        "error: resource api does not build\n"
        "  api/src/index.js:3:9  Expected ;\n"
        "      3 | let x = = 1;\n"
        "        |         ^\n"
    )


def test_render_of_a_failed_build_without_positions_writes_the_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = BuildFailed("the command failed", output="\x1b[31mline one\x1b[0m\nline\x07two\n")
    assert rendered(capsys, error) == "error: the command failed\n    line one\n    line�two\n"
    error = BuildFailed("the command failed", "Correct it.", output="line one\n", reported=True)
    assert rendered(capsys, error) == "error: the command failed\n  hint: Correct it.\n"


def test_render_does_not_wrap_long_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert rendered(capsys, SvcError("word " * 200)).count("\n") == 1


def test_render_writes_markup_literally(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[resource.web] [/] [bold]" in rendered(capsys, SvcError("[resource.web] [/] [bold] :smile:"))


def test_render_without_color_writes_no_escape_sequences(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    stderr.set_color("auto")
    stderr.render(SvcError("a", "b"))
    assert "\x1b" not in capsys.readouterr().err
    stderr.set_color("always")
    stderr.render(SvcError("a", "b"))
    assert "\x1b[" in capsys.readouterr().err


def test_exit_code_of_each_error_code() -> None:
    assert stderr.exit_code(ManifestError(Path("svc.toml"), [])) == ExitCode.USAGE
    assert stderr.exit_code(SvcError("x", code="usage")) == ExitCode.USAGE
    assert stderr.exit_code(BuildFailed("x")) == ExitCode.FAILED


def test_line_strips_control_codes(capsys: pytest.CaptureFixture[str]) -> None:
    stderr.set_color("never")
    stderr.line(Text.assemble("a\x1b[2J", ("b", "bold"), "\x9b2J\u202e"))
    assert capsys.readouterr().err == "a�[2Jb�2J�\n"


def test_closed_pipe_of_stderr_does_not_end_the_program() -> None:
    program = (
        "import sys; from svc_tui.terminal import stderr, stdout\n"
        "for number in range(3): stderr.note('x' * 100_000)\n"
        "stdout.data(7)"
    )
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=writing, check=False
    )
    os.close(writing)
    assert (result.returncode, result.stdout) == (0, b"7\n")
