"""`svc test` as a user runs it, on a project of files and a table."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from doors.tables.sqlite.owner import open_for_writing
from tests.support.service import run

pytestmark = pytest.mark.slow

MANIFEST = "[project]\nname = 'shop'\n[resource.web]\nlane = 'static'\npublic = true\noutput = 'site'\n"
READ = "import os, urllib.request as r; print(r.urlopen(os.environ['SVC_TEST_URL'] + '/').read().decode())"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a migration, and a row in its development data."""
    root = tmp_path / "shop ü"
    for folder in ("site", "tables"):
        (root / folder).mkdir(parents=True)
    (root / "svc.toml").write_text(MANIFEST)
    (root / "site" / "index.html").write_text("hello")
    (root / "tables" / "0001-users.sql").write_text("create table users (id integer primary key)")
    with open_for_writing(root / ".svc") as connection:
        connection.execute("create table mine (id integer)")
    (tmp_path / "temporary").mkdir()
    return root


@contextmanager
def svc_test(project: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    environ = {
        **os.environ,
        "SVC_HOME": str(project.parent / "home"),
        "TMPDIR": str(project.parent / "temporary"),
        "NO_COLOR": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "svc_tui", "test", *words],
        cwd=project / "site",
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
    assert list((project.parent / "temporary").iterdir()) == []


def finished(project: Path, *words: str) -> tuple[int, str, str]:
    with svc_test(project, *words) as process:
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


def test_command_has_the_address_new_tables_and_its_exit_code(project: Path) -> None:
    python = shlex.quote(sys.executable)
    svc = f"{python} -m svc_tui"
    script = f'{python} -c "{READ}"; pwd; {svc} tables list; {svc} logs --tail 1; exit 7'
    code, out, err = finished(project, "--", "sh", "-c", script)
    assert code == 7, err
    page, folder, _, tables, request = out.splitlines()
    assert (page, folder, tables) == ("hello", str(project), "users\ttable\t0\t")
    assert "GET    /" in request and err == ""
    assert not (project / ".svc" / "timeline.db").exists()
    with open_for_writing(project / ".svc") as connection:
        names = [name for (name,) in connection.execute("select name from sqlite_schema")]
        assert [name for name in names if not name.startswith("_svc_")] == ["mine"]


def test_data_of_a_killed_run_is_removed_by_the_next_run(project: Path) -> None:
    with svc_test(project, "--", "sh", "-c", "kill -9 $PPID") as process:
        process.communicate(timeout=60)
        assert len(list((project.parent / "temporary").iterdir())) == 1
        assert finished(project, "--", "true")[0] == 0


def test_verbose_shows_requests_on_stderr(project: Path) -> None:
    code, out, err = finished(project, "-v", "--", sys.executable, "-c", READ)
    assert (code, out) == (0, "hello\n") and "GET    /" in err


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("svc.toml", MANIFEST + "build = 'echo broken >&2; exit 1'\n", "broken"),
        ("tables/0002-more.sql", "create tabel more", "tables/0002-more.sql:1: "),
    ],
)
def test_broken_project_prints_its_errors_and_does_not_run_the_command(
    project: Path, file: str, text: str, message: str
) -> None:
    (project / file).write_text(text)
    code, out, err = finished(project, "--", "touch", "ran")
    assert (code, out) == (1, "") and message in err and "did not run touch" in err
    assert not (project / "ran").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "hint: Put it after --"), (["--", "./no-such"], "cannot run ./no-such: No such file")],
)
def test_missing_command_is_a_usage_error(project: Path, words: list[str], message: str) -> None:
    done = run(
        project, {"PATH": os.environ["PATH"], "SVC_HOME": str(project.parent / "home")}, "test", *words
    )
    assert done.returncode == 2 and message in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_is_forwarded_to_the_command(project: Path, number: signal.Signals) -> None:
    script = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(9))\n"
        "print('up', flush=True)\nsignal.pause()\n"
    )
    with svc_test(project, "--", sys.executable, "-c", script) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(30) == 9


def test_signal_ends_the_builds(project: Path) -> None:
    (project / "svc.toml").write_text(MANIFEST + "build = 'echo building >../began; sleep 600'\n")
    os.mkfifo(project.parent / "began")
    with svc_test(project, "--", "touch", "ran") as process:
        assert (project.parent / "began").read_text() == "building\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert not (project / "ran").exists()


def test_command_that_a_signal_ends_gives_its_code(project: Path) -> None:
    code, _, _ = finished(project, "--", "sh", "-c", "kill -TERM $$")
    assert code == 143
