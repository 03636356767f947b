"""Locks of SQLite, which a process loses with the first descriptor of a file that it closes (fcntl(2)).

Another process could then remove the log of a database that is in use, with the transactions in it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from engine.files.database_files import copy_database
from engine.files.write_ahead_log import lost_commits
from engine.usage.store import UsageStore

SCRIPT = (
    "import apsw, sys; connection = apsw.Connection(sys.argv[1]); print(connection.execute(sys.argv[2]).get)"
)


def elsewhere(path: Path, sql: str) -> str:
    """Run a statement in another process, which closes the file then."""
    return subprocess.check_output([sys.executable, "-c", SCRIPT, str(path), sql], text=True).strip()


def locks(path: Path) -> list[str]:
    """Return the locks of this process on the files of a database, without their numbers."""
    files = [f":{file.stat().st_ino} " for file in path.parent.glob(f"{path.name}*")]
    lines = [line for line in Path("/proc/locks").read_text().splitlines() if f" {os.getpid()} " in line]
    return sorted(line.split(maxsplit=1)[1] for line in lines if any(file in line for file in files))


def copied(path: Path) -> None:
    copy_database(path, path.with_name("copy.db"))
    with closing(apsw.Connection(str(path.with_name("copy.db")))) as copy:
        assert copy.execute("SELECT count(*) FROM entries").get == 1


def searched(path: Path) -> None:
    assert lost_commits(path) == 0


def opened(path: Path) -> None:
    UsageStore(path).close()


@pytest.mark.parametrize("use", [copied, searched, opened])
def test_other_processes_see_that_a_file_is_in_use(tmp_path: Path, use: Callable[[Path], None]) -> None:
    path = tmp_path / "usage.db"
    UsageStore(path).close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("journal_mode", "wal")
        connection.execute("CREATE TABLE entries (id); INSERT INTO entries VALUES (1)")
        before = locks(path)
        assert before
        use(path)
        assert locks(path) == before
        elsewhere(path, "INSERT INTO entries VALUES (2)")
        assert path.with_name("usage.db-wal").exists()
        connection.execute("INSERT INTO entries VALUES (3)")
    assert elsewhere(path, "SELECT count(*) FROM entries") == "3"
