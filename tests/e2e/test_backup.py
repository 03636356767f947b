"""`svc serve --backup`, the loss of its machine, and `svc restore`."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import PASSWORD, Server, environ_of, run, static_project, svc
from tests.support.waiting import until
from tests.svc_tui.hosted import Client, deploy

pytestmark = pytest.mark.slow
SECONDS = 60.0
SCHEMA = "create table item (id integer primary key, name text not null);"


class Machine:
    """A service with a backup in a folder, and the commands of its operator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tries = 0
        self.environ = environ_of(folder / "home")
        self.url = f"file://{folder}/st%C3%B6re"
        self.data = folder / "data ü"
        self.server = Server(self.data, self.environ, "--backup", self.url)
        self.client = self.claim()

    def claim(self) -> Client:
        with Client(self.server.control, "") as client:
            payload = {"code": self.server.code(), "user": "ann", "password": PASSWORD}
            self.token = client.call("POST", "/v1/claim", payload)["token"]
        return Client(self.server.control, self.token)

    def sql(self, sql: str, *params: Any) -> Any:
        request = {"sql": sql, "params": list(params), "write": True}
        return self.client.call("POST", "/v1/projects/shop/sql", request)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(self.folder, self.environ, *arguments)

    def restore(self, name: str, *options: str) -> Path:
        """Restore into a new folder, and return it."""
        target = self.folder / name
        key = self.folder / "secrets.key"
        if not key.exists():
            key.write_bytes((self.data / "secrets.key").read_bytes())
        done = self.run("restore", "--from", self.url, "--data", str(target), "--key", str(key), *options)
        assert done.returncode == 0, done.stderr
        return target

    def stored(self, expected: Callable[[Path], bool]) -> Path:
        """Restore until the result is as expected; return it."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.tries += 1
            target = self.restore(f"try{self.tries}")
            if expected(target):
                return target
        raise AssertionError("the backup does not have what is expected")


def names(data: Path, project: str = "shop") -> list[str]:
    path = data / "projects" / project / "tables" / "tables.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("select name from item order by id")]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    root = static_project(tmp_path / "shop")
    (root / "tables").mkdir()
    (root / "tables" / "0001-item.sql").write_text(SCHEMA)
    try:
        deploy(machine.client, root)
        yield machine
    finally:
        machine.client.close()
        machine.server.stop()


def test_service_is_restored_on_another_machine(machine: Machine, tmp_path: Path) -> None:
    for number in range(20):
        machine.sql("insert into item (name) values ($1)", f"item {number}")
    expected = [f"item {number}" for number in range(20)]
    machine.stored(lambda data: names(data) == expected)
    machine.server.process.kill()
    machine.server.process.wait()
    restored = machine.restore("restored")
    machine.data.rename(tmp_path / "lost")
    server = Server(restored, machine.environ)
    login = {"user": "ann", "password": PASSWORD}
    with Client(server.control, "") as client:
        token = client.call("POST", "/v1/login", login)["token"]
    with Client(server.control, token) as client:
        found = client.call("POST", "/v1/projects/shop/sql", {"sql": "select name from item order by id"})
    assert [row["name"] for row in found["rows"]] == expected
    assert server.get().text == "one"
    server.stop()


def test_files_are_restored_also_a_removed_one_as_of_a_moment(machine: Machine) -> None:
    path = "/v1/projects/shop/files/content"

    def read(data: Path) -> list[bytes | None]:
        """Return the contents of the stored files by their index, and None for one without its bytes."""
        with closing(sqlite3.connect(data / "projects" / "shop" / "tables" / "tables.db")) as connection:
            rows = connection.execute("select sha256 from _svc_files order by key").fetchall()
        blobs = [data / "blobs" / digest for (digest,) in rows]
        return [blob.read_bytes() if blob.exists() else None for blob in blobs]

    machine.sql("insert into item (name) values ('first')")
    for key in ("a", "b"):
        machine.client.call("PUT", path, params={"key": key}, content=[key.encode() * 100_000])
    machine.stored(lambda data: names(data) == ["first"] and read(data) == [b"a" * 100_000, b"b" * 100_000])
    between = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 1))
    while time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) <= between:
        time.sleep(0.05)
    machine.client.call("DELETE", path, params={"key": "a"})
    machine.client.call("PUT", path, params={"key": "b"}, content=[b"new"])
    machine.stored(lambda data: read(data) == [b"new"])
    for blob in (machine.data / "blobs").iterdir():
        os.utime(blob, (1, 1))
    machine.client.call("POST", "/v1/gc", {})
    assert read(machine.restore("before", "--at", between)) == [b"a" * 100_000, b"b" * 100_000]


def test_tables_are_restored_as_of_a_moment(machine: Machine) -> None:
    machine.sql("insert into item (name) values ('first')")
    machine.stored(lambda data: names(data) == ["first"])
    time.sleep(0.01)
    between = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 1))
    while time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) <= between:
        time.sleep(0.05)
    machine.sql("update item set name = 'changed'")
    machine.sql("create table other as select * from item")
    machine.stored(lambda data: names(data) == ["changed"])
    assert names(machine.restore("before", "--at", between)) == ["first"]
    status = machine.run(
        "backup", "status", machine.url, "--key", str(machine.folder / "secrets.key"), "--json"
    )
    assert [each["project"] for each in json.loads(status.stdout)["projects"]] == ["shop"]
    verify = ("backup", "verify", machine.url, "--key", str(machine.folder / "secrets.key"), "--full")
    for options, note in ((("--data", str(machine.data)), ""), ((), "not compared")):
        verified = machine.run(*verify, *options)
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert note in verified.stderr
        assert ("; the tables of shop equal a restore" in verified.stdout) is not bool(note)
    other = machine.run(*verify, "--data", str(machine.folder))
    assert other.returncode == 2 and "is not the service of this backup" in other.stderr
    with closing(sqlite3.connect(machine.data / "projects" / "shop" / "tables" / "tables.db")) as connection:
        connection.execute("update item set name = 'foreign'")
        connection.commit()
    verified = machine.run(*verify, "--data", str(machine.data))
    assert verified.returncode == 1
    assert "the backup of shop differs" in verified.stdout


def test_damaged_object_and_another_key_are_named(machine: Machine) -> None:
    machine.sql("insert into item (name) values ('first')")
    machine.stored(lambda data: names(data) == ["first"])
    machine.server.stop()
    [snapshot, *_] = sorted((machine.folder / "störe").glob("tables/shop/*/snapshot/*"))
    content = bytearray(snapshot.read_bytes())
    content[-1] ^= 1
    snapshot.write_bytes(content)
    verified = machine.run("backup", "verify", machine.url, "--key", str(machine.folder / "secrets.key"))
    assert verified.returncode == 1
    assert snapshot.name in verified.stdout
    [blob, *_] = sorted((machine.folder / "störe" / "blobs").iterdir())
    blob.unlink()
    snapshot.write_bytes(bytes(content[:-1] + bytes([content[-1] ^ 1])))
    key = str(machine.folder / "secrets.key")
    lacking = machine.run(
        "restore", "--from", machine.url, "--data", str(machine.folder / "lacking"), "--key", key
    )
    assert f"blob sha256:{blob.name.partition('-')[0]}" in lacking.stderr
    verified = machine.run("backup", "verify", machine.url, "--key", key)
    assert verified.returncode == 1
    assert f"blob sha256:{blob.name.partition('-')[0]} of shop/" in verified.stdout
    misspelled = machine.run(
        "restore",
        "--from",
        machine.url,
        "--data",
        str(machine.folder / "none"),
        "--key",
        key,
        "--project",
        "shpo",
    )
    assert misspelled.returncode == 1
    assert misspelled.stderr.count("shpo") == 1
    other = machine.folder / "other.key"
    other.write_text("A" * 43 + "=\n")
    failed = machine.run(
        "restore", "--from", machine.url, "--data", str(machine.folder / "new"), "--key", str(other)
    )
    assert failed.returncode == 1
    assert "sealed with another key" in failed.stderr


def test_store_of_another_service_is_refused(machine: Machine, tmp_path: Path) -> None:
    command = [*svc(), "serve", "--data", str(tmp_path / "second"), "--backup", machine.url]
    command += ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
    second = subprocess.run(command, env=machine.environ, capture_output=True, text=True, timeout=SECONDS)
    assert second.returncode == 1
    assert "another" in second.stderr


def test_tables_of_a_live_project_are_restored_and_brought_back(machine: Machine) -> None:
    machine.sql("insert into item (name) values ('first')")
    machine.stored(lambda data: names(data) == ["first"])
    between = datetime.now(UTC).isoformat()
    machine.sql("delete from item")
    machine.sql("insert into item (name) values ('typo')")
    machine.environ |= {"SVC_URL": machine.client.url, "SVC_TOKEN": machine.token}
    command = ("restore", "--service", "--project", "shop")
    asked = machine.run(*command, "--at", between)
    assert asked.returncode == 2 and "begin their history" in asked.stderr and "type shop" in asked.stderr
    assert names(machine.data) == ["typo"]
    done = machine.run(*command, "--at", between, "--yes")
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in machine.sql("select name from item")["rows"]] == ["first"]
    machine.sql("insert into item (name) values ('second')")
    machine.stored(lambda data: names(data) == ["first", "second"])
    back = done.stdout.splitlines()[-1].partition("svc ")[2].split()
    assert machine.run(*back, "--yes").returncode == 0
    assert [row["name"] for row in machine.sql("select name from item")["rows"]] == ["typo"]
    for options, reason in (
        (("--at", "2001-01-01"), "the backup of its tables begins at"),
        (("--before-deployment", "x"), "has no deployment x"),
        (("--data", "new"), "without --from, --key and --data"),
    ):
        failed = machine.run(*command, "--yes", *options)
        assert failed.returncode in {1, 2} and reason in failed.stderr
    machine.client.call("PUT", "/v1/users/bob", {"password": PASSWORD, "roles": {"shop": "deployer"}})
    login = {"user": "bob", "password": PASSWORD}
    machine.environ["SVC_TOKEN"] = machine.client.call("POST", "/v1/login", login)["token"]
    refused = machine.run(*command, "--yes")
    assert refused.returncode == 1 and "owner" in refused.stderr


def test_restore_of_a_live_project_is_canceled_by_ctrl_c_or_the_end_of_its_command(machine: Machine) -> None:
    machine.sql("insert into item (name) values ('first')")
    machine.stored(lambda data: names(data) == ["first"])
    between = datetime.now(UTC).isoformat()
    machine.sql("insert into item (name) values ('second')")
    machine.environ |= {"SVC_URL": machine.client.url, "SVC_TOKEN": machine.token}
    command = ("restore", "--service", "--project", "shop", "--at", between, "--yes")
    tables = machine.data / "projects" / "shop" / "tables"
    for number, code in ((signal.SIGINT, 1), (signal.SIGKILL, -9)):
        with (
            closing(sqlite3.connect(tables / "tables.db", isolation_level=None)) as other,
            subprocess.Popen(
                [*svc(), *command],
                env=machine.environ,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            ) as process,
        ):
            assert process.stderr is not None
            other.execute("begin immediate")  # The restore waits for it before it replaces the tables.
            until(lambda: any(tables.glob("svc-restore-*/shop/tables/tables.db")))
            process.send_signal(number)
            if number == signal.SIGINT:
                assert "canceling" in process.stderr.readline()
            else:
                process.wait()
                time.sleep(0.5)  # The service notices that its caller is gone.
            other.execute("rollback")
            assert process.wait(SECONDS) == code
            assert code < 0 or "canceled; the tables of shop were not changed" in process.stderr.read()
        until(lambda: not any(tables.glob("svc-restore-*")))
        assert names(machine.data) == ["first", "second"]
    done = machine.run(*command)
    assert done.returncode == 0, done.stderr
    [back] = done.stdout.splitlines()[-1:]
    assert back.startswith("to go back: ") and back in machine.server.wait_for("replaced the tables of shop")


def test_restores_of_a_removed_project_have_it_as_of_earlier_moments_only(machine: Machine) -> None:
    machine.sql("insert into item (name) values ('old')")
    machine.stored(lambda data: names(data) == ["old"])
    before = datetime.now(UTC).isoformat()
    machine.client.call("DELETE", "/v1/projects/shop")
    gone = machine.stored(lambda data: not (data / "projects" / "shop").exists())
    server = Server(gone, machine.environ)
    assert server.get().status_code == 404
    server.stop()
    refused = machine.run("restore", "--from", machine.url, "--data", str(machine.folder / "refused"),
                          "--key", str(machine.folder / "secrets.key"), "--project", "shop")  # fmt: skip
    assert refused.returncode == 1 and "shop was removed at" in refused.stderr, refused.stderr
    assert not (machine.folder / "refused").exists()
    assert names(machine.restore("one", "--project", "shop", "--at", before)) == ["old"]
    earlier = machine.restore("whole", "--at", before)
    server = Server(earlier, machine.environ)
    assert server.get().text == "one" and names(earlier) == ["old"]
    server.stop()
    deploy(machine.client, machine.folder / "shop")
    machine.sql("insert into item (name) values ('new')")
    machine.stored(lambda data: names(data) == ["new"])
    assert names(machine.restore("two", "--project", "shop", "--at", before)) == ["old"]
