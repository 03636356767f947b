import subprocess
import sys
from pathlib import Path

import pytest

from svc_tui.main import COMMANDS, run


def test_version_and_help_import_nothing_heavy() -> None:
    script = (
        "import sys; from svc_tui.main import run; run(['--version']); run(['--help']);"
        "heavy = {'textual', 'quart', 'wasmtime', 'hypercorn', 'watchfiles', 'pydantic'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("svc 0.")


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert run([name, "--help"]) == 0
        assert f"svc {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["dve"], 2, "svc dev"),
        (["dev", "--prt", "3"], 2, "--prt"),
        (["dev", "--port", "x"], 2, "--port"),
        (["--color", "pink", "dev"], 2, "auto, always or never"),
        (["-C", "/no/such/folder", "dev"], 2, "/no/such/folder"),
        (["dev"], 2, "svc new"),
        (["build"], 2, "svc new"),
    ],
)
def test_mistakes_are_explained_and_have_their_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == code
    told = capsys.readouterr()
    assert words in told.err and "Traceback" not in told.err and told.out == ""


def test_a_closed_pipe_is_success() -> None:
    command = f"{sys.executable} -m svc_tui --help | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", command], check=False).returncode == 0
