import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from svc_tui.terminal import stdout

PRINT = "from svc_tui.terminal import stdout; stdout.set_color('{mode}'); {body}"


def script(body: str, mode: str = "auto") -> list[str]:
    return [sys.executable, "-c", PRINT.format(mode=mode, body=body)]


def test_data_writes_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    stdout.set_color("never")
    stdout.data({"name": "süß", "text": "a\nb " * 100})
    written = capsys.readouterr().out
    assert written.count("\n") == 1 and "süß" in written
    assert json.loads(written)["name"] == "süß"


def test_closed_pipe_exits_with_success() -> None:
    body = "[stdout.styled_lines([[('line', 'bold')]]) for _ in range(100_000)]"
    reading = subprocess.Popen(script(body), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reading.stdout is not None and reading.stderr is not None
    assert reading.stdout.readline() == b"line\n"
    reading.stdout.close()
    assert reading.wait() == 0
    assert reading.stderr.read() == b""
    reading.stderr.close()


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("dev", "--help")])
def test_unwritable_stdout_is_an_explained_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "file").touch()
    with (tmp_path / "file").open("rb") as only_for_reading:
        command = [sys.executable, "-m", "svc_tui", *arguments]
        process = subprocess.run(
            command, stdout=only_for_reading, stderr=subprocess.PIPE, text=True, check=False
        )
    assert process.returncode == 1
    assert process.stderr.startswith("error: cannot write to stdout: ")
    assert "Traceback" not in process.stderr


def on_a_terminal(command: list[str], **environ: str) -> str:
    """Run a program with a terminal as its output; return the output."""
    leader, follower = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    subprocess.run(command, stdout=follower, env=environment | {"TERM": "xterm"} | environ, check=True)
    os.close(follower)
    written = os.read(leader, 1 << 16).decode()
    os.close(leader)
    return written


def test_color_mode_selects_escape_sequences() -> None:
    body = "stdout.styled_lines([[('hello', 'bold red')]])"
    assert "\x1b[" in on_a_terminal(script(body))
    assert "\x1b[" not in on_a_terminal(script(body), NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(script(body, "never"))
    piped = subprocess.run(script(body), capture_output=True, check=True)
    assert piped.stdout == b"hello\n"
    process = subprocess.run(script(body, "always"), capture_output=True, check=True)
    assert b"\x1b[" in process.stdout


def test_line_strips_control_codes() -> None:
    body = "stdout.styled_lines([[('a\\x1b[2Jb\\rc', '')]])"
    assert subprocess.run(script(body), capture_output=True, check=True).stdout.decode() == "ab�c\n"
    for body in (
        "stdout.line('a\\x1b[2Jb\\rc')",
        "from rich.text import Text; stdout.line(Text.assemble('a\\x1b[2J', ('b', 'bold'), '\\rc\\x9b2J'))",
    ):
        result = subprocess.run(script(body), capture_output=True, check=True).stdout.decode()
        assert result.startswith("a") and result.endswith("\n") and not {"\x1b", "\r", "\x9b"} & set(result)


def test_pause_without_stdout_waits() -> None:
    command = script("stdout.pause(0.01)")
    process = subprocess.run(["sh", "-c", '"$0" "$@" >&-', *command], capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (0, b"")


def test_width_of_a_pipe_is_not_limited(capsys: pytest.CaptureFixture[str]) -> None:
    stdout.set_color("auto")
    assert stdout.width() > 10_000
