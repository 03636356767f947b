"""`svc fleet rescue` after the loss of two of three machines, in the order of this file."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.fleet.node import NODE_FOLDER, FleetNode
from engine.service.secrets import KEY_FILE, SecretsKey, SecretStore
from tests.engine.fleet.cluster import free_addresses
from tests.engine.fleet.machines import INSERT, TEXTS, Machines
from tests.faults.faulty_fleet import FaultyFleet
from tests.support.service import Server, run, svc
from tests.support.waiting import is_running, until

pytestmark = pytest.mark.slow(seconds=60)
LAST = "INSERT INTO entries VALUES (9, 'last') ON CONFLICT DO NOTHING"


@pytest.fixture(scope="module", autouse=True)
def formed(machines: Machines) -> None:
    """Make the service a fleet of three nodes."""
    machines.form()


def rescue(machines: Machines, data: Path, target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = ("fleet", "rescue", str(target), "--data", str(data), *options)
    return run(machines.project, machines.environ, *arguments)


def refused(machines: Machines, data: Path, *options: str) -> str:
    """Return the error of a rescue, which leaves nothing."""
    target = machines.root / "refused"
    done = rescue(machines, data, target, *options)
    assert done.returncode == 1, done.stdout
    assert not target.exists()
    assert not list(machines.root.glob(".svc-rescue-*"))
    return done.stderr


def contents(folder: Path) -> dict[str, str]:
    """Return the digests of the files of a data directory."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def test_rescue_refuses_while_other_keepers_run(machines: Machines) -> None:
    for number in (1, 2, 3):
        assert machines.write(number, INSERT, f"through {number}").status_code == 200
    environ = machines.environ_at(1)
    assert run(machines.project, environ, "secret", "set", "KEY", text="the value").returncode == 0
    error = refused(machines, machines.folder(3))
    assert "runs" in error
    assert "svc fleet token --keeper" in error


def test_folder_that_is_no_nodes_is_refused(machines: Machines, tmp_path: Path) -> None:
    assert "fleet.json not found" in refused(machines, tmp_path)


def test_fleet_that_lost_two_machines_becomes_a_service(machines: Machines) -> None:
    """The log on the third machine lacks the last write, which its copy of the tables has."""
    faulty = FaultyFleet(machines)
    servers = [faulty.server(number) for number in (1, 2, 3)]
    os.kill(servers[2], signal.SIGSTOP)
    try:
        until(lambda: machines.write(1, LAST).status_code == 200)  # An election may be necessary.
        assert machines.rows(3, TEXTS)[-1] == {"text": "last"}
        machines.kill(1, 2, 3)
        until(lambda: not any(map(is_running, servers[:2])))
    finally:
        os.kill(servers[2], signal.SIGCONT)
    until(lambda: not is_running(servers[2]))
    data, target = machines.folder(3), machines.root / "rescued ü"
    before = contents(data)
    done = rescue(machines, data, target, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["projects_with_tables"] == 1
    assert document["newer"] == ["shop"]
    assert document["changed"] <= document["contact"] < document["tables"]["shop"]
    assert "svc serve --data" in done.stderr
    assert contents(data) == before
    assert not {"fleet", "moved"} & {path.name for path in target.iterdir()}
    server = Server(target, machines.environ)
    machines.servers.append(server)
    assert server.get().text == "one"
    texts = [row["text"] for row in machines.rows(4, TEXTS)]
    assert texts == ["through 1", "through 2", "through 3", "last"]
    assert machines.write(4, INSERT, "after").status_code == 200
    assert machines.rows(4, "SELECT count(*) AS n FROM words") == [{"n": 5}]
    assert server.stop() == 0

    async def secret() -> str:
        bucket = FolderBucket(target)
        try:
            return (await SecretStore(bucket.kv, SecretsKey.open(target)).values("shop", {"KEY"}))["KEY"]
        finally:
            await bucket.aclose()

    assert asyncio.run(secret()) == "the value"


def test_node_that_waits_for_others_accepts_no_connections(machines: Machines) -> None:
    ports = [address.port for address in free_addresses(2)]
    listen = ("--listen", f"127.0.0.1:{ports[0]}", "--control", f"127.0.0.1:{ports[1]}")
    waiting = subprocess.Popen(
        [*svc(), "serve", *machines.data(1), *listen], env=machines.environ, stderr=subprocess.PIPE, text=True
    )
    try:
        assert waiting.stderr is not None
        assert any("waiting for a majority of the fleet's nodes" in line for line in waiting.stderr)
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
    finally:
        waiting.kill()
        waiting.communicate()


def test_target_that_is_not_empty_is_refused(machines: Machines) -> None:
    done = rescue(machines, machines.folder(3), machines.root / "rescued ü")
    assert done.returncode == 1
    assert "is not empty" in done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("step", ["data/version", "n*/fleet/nats/store", "data/blobs/*"])
def test_killed_rescue_is_repeated(machines: Machines, step: str) -> None:
    data, target = machines.folder(2), machines.root / "killed"
    before = contents(data)
    command = [*svc(), "fleet", "rescue", str(target), "--data", str(data)]
    for _ in range(20):  # The last step may end before it is killed.
        shutil.rmtree(target, ignore_errors=True)
        killed = subprocess.Popen(command, env=machines.environ, stderr=subprocess.DEVNULL)
        while killed.poll() is None and not list(machines.root.glob(f".svc-rescue-*/{step}")):
            time.sleep(0.001)
        killed.kill()
        killed.wait()
        if not target.exists():
            break
    assert not target.exists()
    done = rescue(machines, data, target)
    assert done.returncode == 0, done.stderr
    assert "rescued" in done.stdout
    assert "  tables of shop: 20" in done.stdout
    assert contents(data) == before
    assert not list(machines.root.glob(".svc-rescue-*"))
    shutil.rmtree(target)


def test_node_that_does_not_know_the_keepers_asks_for_them(machines: Machines) -> None:
    folder = machines.folder(1) / NODE_FOLDER
    node = FleetNode.read(folder)
    assert node.node in node.keepers
    node.save(folder, keepers=())
    assert "--keepers" in refused(machines, machines.folder(1))
    target = machines.root / "named"
    done = rescue(machines, machines.folder(1), target, "--keepers", ",".join(node.keepers))
    assert done.returncode == 0, done.stderr
    assert (target / KEY_FILE).read_bytes() == (machines.folder(1) / KEY_FILE).read_bytes()


def test_wrong_key_of_the_secrets_is_named(machines: Machines) -> None:
    key = machines.folder(2) / KEY_FILE
    key.rename(key.with_suffix(".lost"))
    SecretsKey.open(machines.folder(2))
    error = refused(machines, machines.folder(2))
    assert "secrets.key is not the key of this fleet" in error
    key.unlink()
    done = rescue(machines, machines.folder(2), machines.root / "without a key")
    assert done.returncode == 0, done.stderr
    assert "svc secret set" in done.stderr
