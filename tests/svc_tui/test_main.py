import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from svc_tui import main
from svc_tui.main import COMMANDS, Command, run

CONSOLE = {"textual", "svc_tui.console.app"}
SERVER = CONSOLE | {"quart", "hypercorn", "wasmtime", "inotify_simple", "httpcore"}
RUN = "from svc_tui.main import run\n"


def svc(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "svc_tui", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environ)


@pytest.mark.parametrize(
    ("start", "forbidden"),
    [
        (f"{RUN}run(['--version'])", SERVER | {"pydantic"}),
        ("import svc_tui.console.app", {"PIL"}),
        (f"{RUN}run(['--help'])", SERVER | {"pydantic"}),
        (f"{RUN}for name in {[*COMMANDS]}: run([name, '--help'])", SERVER | {"httpx"}),
        (
            "import engine.workers.worker, svc_tui.composition as c; c.doors()",
            CONSOLE | {"quart", "pydantic", "httpx", "inotify_simple"},
        ),
        ("import engine.wasm.compile.compiler", SERVER - {"wasmtime"} | {"asyncio", "importlib.metadata"}),
    ],
)
def test_start_imports_only_what_it_uses(start: str, forbidden: set[str]) -> None:
    script = f"{start}\nimport sys; sys.exit(', '.join({forbidden} & set(sys.modules)) or 0)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_version_option_prints_name_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"svc {version('svc-tui')}\n"


def test_svc_without_a_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    output = capsys.readouterr()
    assert all(command.summary in output.out for command in COMMANDS.values()) and output.err == ""


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert run([name, "--help"]) == 0
        assert f"svc {name}" in (text := capsys.readouterr().out)
        assert (run([name, "-h"]), capsys.readouterr().out) == (0, text)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["dve"], 2, "svc dev"),
        (["xyzzy"], 2, "svc --help"),
        (["tables", "sow"], 2, 'unknown command "sow"\n  hint: Did you mean `svc tables show`?'),
        (["tables", "xyzzy"], 2, "hint: Run `svc tables --help` to list the commands."),
        (["dev", "--prt", "3"], 2, "unknown option --prt\n  hint: Did you mean --port?"),
        (["dev", "--port", "x"], 2, "error: --port must be a valid integer\n"),
        (["dev", "--port", "70000"], 2, "error: --port must be less than or equal to 65535\n"),
        (["dev", "--port"], 2, "error: --port needs a value\n  hint: Run `svc dev --help` for details."),
        (["dev", "extra"], 2, "error: unexpected argument: extra\n  hint: Usage: svc dev"),
        (["dev", "--release=1"], 2, "error: --release takes no value\n"),
        (
            ["tables", "list", "--service"],
            2,
            "unknown option --service\n  hint: Pass it before the command: `svc tables --service list …`.",
        ),
        (["deploy", "-C", "x"], 2, "hint: Pass it before the command: `svc -C deploy …`."),
        (["restore", "--at", "2126-01-01T00:00", "--data", "x"], 2, "2126-01-01T00:00 is in the future"),
        (["serve", "--port", "80"], 2, "unknown option --port\n  hint: Did you mean --listen?"),
        (["usage", "--by", "week"], 2, "--by cannot be week\n  hint: Use minute, hour, day or total."),
        (["usage", "--by", "hours"], 2, "--by cannot be hours\n  hint: Did you mean hour?"),
        (["user", "rm"], 2, "error: NAME is missing\n  hint: Usage: svc user rm"),
        (["--colour"], 2, "hint: Did you mean --color?"),
        (["--color", "pink", "dev"], 2, "auto, always or never"),
        (["-C", "/no/such/folder", "dev"], 2, "cannot enter /no/such/folder"),
        (["-C", __file__, "dev"], 2, "Pass -C a folder"),
        (["dev"], 2, "svc new"),
        (["build"], 2, "svc new"),
        (["new"], 2, "svc new my-app"),
    ],
)
def test_usage_errors_have_a_message_and_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == code
    output = capsys.readouterr()
    assert words in output.err and "Traceback" not in output.err and output.out == ""


def test_option_c_changes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "süß und weit"
    folder.mkdir()
    (folder / "svc.toml").write_text("[project]\nnam = 1\n")
    assert run(["-C", str(folder), "build"]) == 2
    output = capsys.readouterr().err
    assert "svc.toml:2  project.nam" in output and 'Did you mean "name"?' in output


def test_closed_pipe_is_success() -> None:
    command = f"'{sys.executable}' -m svc_tui --help | true; exit ${{PIPESTATUS[0]}}"
    process = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (0, b"")


def broken() -> None:
    """Raise an unexpected error."""
    raise ZeroDivisionError("one by none")


def interrupted() -> None:
    """Raise the error of Ctrl+C."""
    raise KeyboardInterrupt


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the two functions above to the commands."""
    monkeypatch.setitem(sys.modules, "svc_tui.commands.odd", sys.modules[__name__])
    monkeypatch.setitem(main.COMMANDS, "broken", Command("odd", "broken", "Fail."))
    monkeypatch.setitem(main.COMMANDS, "interrupted", Command("odd", "interrupted", "Stop."))


@pytest.mark.usefixtures("command")
def test_unexpected_error_is_one_line_unless_svc_debug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SVC_DEBUG", raising=False)
    assert run(["broken"]) == 1
    output = capsys.readouterr().err
    assert (
        "ZeroDivisionError: one by none" in output and "SVC_DEBUG=1" in output and "Traceback" not in output
    )
    monkeypatch.setenv("SVC_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run(["broken"])


@pytest.mark.usefixtures("command")
def test_keyboard_interrupt_exits_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["interrupted"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_completion_offers_commands_and_ignores_unknown_ones() -> None:
    offered = svc(_SVC_COMPLETE="complete_bash", COMP_WORDS="svc de", COMP_CWORD="1")
    assert offered.returncode == 0, offered.stderr
    template = svc(_SVC_COMPLETE="complete_bash", COMP_WORDS="svc new -t gu", COMP_CWORD="3")
    assert template.stdout.split() == ["guestbook"], template.stderr
    nothing = svc(_SVC_COMPLETE="complete_bash", COMP_WORDS="svc foo --x", COMP_CWORD="2")
    assert nothing.stderr == ""


def test_output_escapes_characters_that_the_encoding_lacks(tmp_path: Path) -> None:
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = svc("new", str(tmp_path / "süß" / "app"), "-t", "static", **environment)
    assert result.returncode == 0 and "\\xfc" in result.stdout


def test_windows_gets_a_clear_error_and_no_import_error() -> None:
    script = (
        "import sys\n"
        "for name in ('fcntl', 'grp', 'pwd', 'resource', 'termios', 'tty', 'pty'): sys.modules[name] = None\n"
        "import svc_tui.main as main\n"
        "sys.platform = 'win32'\n"
        "sys.argv = ['svc', 'login']\n"
        "main.main()\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr == "error: svc needs Linux or macOS\n  hint: On Windows, use WSL2.\n"


def test_version_and_schema_print_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == version("svc-tui")
    assert run(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "svc.toml"


@pytest.mark.parametrize(
    "arguments", [("user", "role", "ben", "king"), ("user", "add", "ben", "--role", "king"), ("mount",)]
)
def test_wrong_arguments_name_their_remedy(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments]) == 2
    error = capsys.readouterr().err
    assert "internal" not in error
    if "king" in arguments:
        assert "cannot be king\n  hint: Use viewer, deployer" in error
    else:
        assert error.count("Usage:") == 1
