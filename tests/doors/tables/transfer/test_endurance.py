"""Imports and exports in separate processes: memory use and killed imports."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import rows, scalar

pytestmark = [pytest.mark.nightly, pytest.mark.slow]

ROWS = 40_000
ATTEMPTS = 10
MEMORY = """
import resource, sys
from pathlib import Path
from doors.tables.sqlite.connections import open_owner
from doors.tables.files.importer import load
from doors.tables.files.exporter import save

folder, format = Path(sys.argv[1]), sys.argv[2]
database = open_owner(folder / f"{format}.db")
with (folder / "small.csv").open("rb") as source:
    list(load(database, source, "csv", table="small"))
def around(name):
    path = folder / f"{name}.{format}"
    with path.open("wb") as output:
        for piece in save(database, lambda: False, format, [name]):
            output.write(piece)
    database.execute(f"drop table {name}")
    with path.open("rb") as source:
        for _ in load(database, source, format, **({} if format in ("sql", "db") else {"table": name})):
            pass
around("small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with (folder / "large.csv").open("rb") as source:
    for _ in load(database, source, "csv", table="large"):
        pass
around("large")
print(database.execute("select count(*) from large").fetchone()[0])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
IMPORT = """
import sys
from pathlib import Path
from doors.tables.sqlite.connections import open_owner
from doors.tables.files.importer import load
database = open_owner(Path(sys.argv[1]))
print("open", flush=True)
with open(sys.argv[2], "rb") as source:
    for _ in load(database, source, "csv", table="rows"):
        pass
"""


def write_csv(path: Path, rows: int) -> None:
    with path.open("w") as file:
        file.write("id,name,score,at\n")
        file.writelines(f"{n},name of {n},{n / 7},2024-01-01T00:00:00.000Z\n" for n in range(rows))


@pytest.mark.parametrize("format", ["csv", "json", "jsonl", "sql", "db"])
def test_transfer_memory_is_independent_of_file_size(tmp_path: Path, format: str) -> None:
    write_csv(tmp_path / "small.csv", 5000)
    write_csv(tmp_path / "large.csv", ROWS)
    process = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path), format], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    count, grown = map(int, process.stdout.split())
    assert count == ROWS
    # In memory the rows would take some 27 MB; caches of SQLite grow to a bound of their own.
    assert grown < 12 * 1024


def test_killed_import_is_atomic(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", 30_000)
    path = tmp_path / "tables.db"
    database = open_owner(path)
    database.execute("create table rows (id integer primary key, name text, score real, at text)")
    observed = set()
    for attempt in range(ATTEMPTS):
        process = subprocess.Popen(
            [sys.executable, "-c", IMPORT, str(path), str(tmp_path / "rows.csv")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        assert process.stdout.readline() == "open\n"
        if attempt < ATTEMPTS - 1:
            time.sleep(attempt * 0.06)
            process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        count = scalar(database, "select count(*) from rows")
        assert count in (0, 30_000)
        observed.add(count)
        database.execute("delete from rows")
        assert rows(database, "pragma integrity_check") == [("ok",)]
    assert observed == {0, 30_000}
    assert list(tmp_path.glob("*svc_import*")) == []
    database.close()
