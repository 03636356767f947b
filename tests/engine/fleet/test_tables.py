"""Tables on three services that have become a fleet. Tests use them in the order of this file."""

import json
import secrets
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.engine.fleet.machines import INSERT, TEXTS, Machines
from tests.support.fleet import kill_servers
from tests.support.service import Server, run
from tests.support.waiting import until

pytestmark = pytest.mark.slow
LARGE = "SELECT count(*) AS n, sum(length(text)) AS size FROM large"
ROWS, TEXT = 20_000, 1_000
"""Rows of a large transaction, and the characters of their texts: 10 MB after compression."""


def texts(machines: Machines) -> list[str]:
    """Return the texts of all entries, which are equal on all nodes."""
    return sorted(str(row["text"]) for row in machines.everywhere(TEXTS))  # type: ignore[call-overload]


def test_rows_from_before_the_fleet_are_on_all_nodes(machines: Machines) -> None:
    for number in range(3):
        assert machines.write(1, INSERT, f"old {number}").status_code == 200
    machines.form()
    assert texts(machines) == ["old 0", "old 1", "old 2"]


def test_write_through_any_node_is_read_on_all(machines: Machines) -> None:
    for number in (1, 2, 3):
        assert machines.write(number, INSERT, f"node {number}").status_code == 200
        assert f"node {number}" in texts(machines)
    assert len(machines.everywhere("SELECT text FROM words WHERE words MATCH 'node'")) == 3


def test_row_that_is_edited_on_one_node_changes_on_all(machines: Machines) -> None:
    change = {"insert": {"text": "edited"}}
    answer = machines.post(3, "rows", {"table": "entries", "changes": [change]})
    assert answer.status_code == 200, answer.text
    assert "edited" in texts(machines)
    [edited] = machines.rows(2, "SELECT id FROM entries WHERE text = 'edited'")
    key = str(edited["id"])  # type: ignore[call-overload]
    for number in (1, 2, 3):
        blame = ("tables", "--service", "blame", "entries", key, "--json")
        found = run(machines.project, machines.environ_at(number), *blame)
        assert found.returncode == 0, found.stderr
        [row] = json.loads(found.stdout)["rows"]
        assert (row["write"]["by"], row["write"]["user"], row["after"]["text"]) == (
            "edit",
            "ann/ci",
            "edited",
        )


def test_import_and_migration_on_one_node_are_on_all(machines: Machines) -> None:
    (machines.project / "more.csv").write_text("text\n" + "imported\n" * 5000)
    done = run(
        machines.project, machines.environ_at(2), "tables", "--service", "import", "entries", "more.csv"
    )
    assert done.returncode == 0, done.stderr
    assert texts(machines).count("imported") == 5000
    migration = machines.project / "tables" / "0002-marks.sql"
    migration.write_text("CREATE TABLE marks (name TEXT PRIMARY KEY);\n")
    refused = run(machines.project, machines.environ_at(3), "deploy")
    assert refused.returncode == 1
    assert "0002-marks.sql:1: a fleet does not replicate the rowids that table marks has" in refused.stderr
    migration.write_text(
        "CREATE TABLE marks (name TEXT PRIMARY KEY) WITHOUT ROWID;\n"
        "DELETE FROM entries WHERE text = 'imported';\n"
    )
    deployed = run(machines.project, machines.environ_at(3), "deploy")
    assert deployed.returncode == 0, deployed.stderr
    assert machines.everywhere("SELECT * FROM marks") == []
    assert "imported" not in texts(machines)


def test_migration_of_many_messages_is_on_all_nodes(machines: Machines) -> None:
    numbers = f"WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT i"
    (machines.project / "tables" / "0003-large.sql").write_text(
        "CREATE TABLE large (id INTEGER PRIMARY KEY, text TEXT NOT NULL);\n"
        f"INSERT INTO large {numbers}, hex(randomblob({TEXT // 2})) FROM n;\n"
    )
    deployed = run(machines.project, machines.environ_at(2), "deploy")
    assert deployed.returncode == 0, deployed.stderr
    machines.everywhere("SELECT id, text FROM large WHERE id % 1000 = 0")
    assert machines.everywhere(LARGE) == [{"n": ROWS, "size": ROWS * TEXT}]


def test_import_of_many_messages_is_whole_or_absent_when_its_node_is_killed(machines: Machines) -> None:
    lines = b"".join(b"%s\n" % secrets.token_hex(TEXT // 2).encode() for _ in range(ROWS))
    store = machines.root / "m1" / "fleet" / "nats"

    def size() -> int:
        return sum(file.stat().st_size for file in store.rglob("*.blk") if file.exists())

    def send() -> None:
        url = f"{machines.servers[2].control}/v1/projects/shop/import?format=csv&table=large"
        with suppress(httpx.TransportError):
            machines.client.post(url, content=b"text\n" + lines)

    with ThreadPoolExecutor() as threads:
        before = size()
        sending = threads.submit(send)
        until(lambda: size() > before + (2 << 20) or sending.done())
        machines.kill(3)
    found = machines.everywhere(LARGE, (1, 2))
    assert found in ([{"n": times * ROWS, "size": times * ROWS * TEXT}] for times in (1, 2))
    machines.restart(3)
    assert machines.everywhere(LARGE) == found


def test_writes_of_all_nodes_at_once_are_present_once_although_one_is_killed(machines: Machines) -> None:
    acknowledged: list[str] = []
    killed = threading.Event()

    def write(number: int) -> None:
        for at in range(15):
            if number == 3 and at == 7:
                machines.servers[2].process.send_signal(signal.SIGKILL)
                killed.set()
                return
            text = f"{number}-{at}"
            with suppress(httpx.TransportError):
                if machines.write(number, INSERT, text).status_code == 200:
                    acknowledged.append(text)
        killed.wait()

    with ThreadPoolExecutor() as threads:
        list(threads.map(write, (1, 2, 3)))
    machines.servers[2].process.communicate()
    until(lambda: machines.write(1, INSERT, "after the kill").status_code == 200)
    found = [str(row["text"]) for row in machines.everywhere(TEXTS, (1, 2))]  # type: ignore[call-overload]
    assert [text for text in acknowledged if found.count(text) != 1] == []
    assert [text for text in set(found) if "-" in text and found.count(text) != 1] == []
    machines.restart(3)
    assert sorted(found) == texts(machines)


def test_backup_has_the_tables_of_the_fleet_and_serves_them(machines: Machines, tmp_path: Path) -> None:
    expected = texts(machines)
    node, copy = str(machines.root / "m2"), tmp_path / "copy"
    saved = run(tmp_path, machines.environ, "bucket", "backup", node, str(copy), "--json")
    assert saved.returncode == 0, saved.stderr
    assert json.loads(saved.stdout)["projects_with_tables"] == 1
    for place in (node, str(copy)):
        checked = run(tmp_path, machines.environ, "bucket", "verify", place)
        assert checked.returncode == 0, checked.stderr
        assert "tables of 1 project" in checked.stdout
    again = run(tmp_path, machines.environ, "bucket", "migrate", str(copy), str(tmp_path / "again"))
    assert again.returncode == 0, again.stderr
    shutil.copy(machines.root / "m2" / "secrets.key", tmp_path / "again")
    server = Server(tmp_path / "again", machines.environ)
    try:
        answer = machines.client.post(f"{server.control}/v1/projects/shop/sql", json={"sql": TEXTS})
        assert sorted(str(row["text"]) for row in answer.json()["rows"]) == expected
        written = {"sql": INSERT, "params": ["after the restore"], "write": True}
        assert machines.client.post(f"{server.control}/v1/projects/shop/sql", json=written).status_code == 200
    finally:
        kill_servers([server])
    tables = copy / "projects" / "shop" / "tables" / "tables.db"
    tables.write_bytes(tables.read_bytes()[:4096] + b"damaged" * 1000)
    corrupt = run(tmp_path, machines.environ, "bucket", "verify", str(copy))
    assert corrupt.returncode == 1
    assert "corrupt  tables of shop" in corrupt.stdout
    refused = run(tmp_path, machines.environ, "bucket", "restore", str(tmp_path / "again"), node)
    assert refused.returncode == 1
    assert f"{node} is not a bucket and not empty" in refused.stderr
