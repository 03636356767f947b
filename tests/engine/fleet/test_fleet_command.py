"""`svc fleet` as processes: three nodes from their folders."""

import re
import socket
import subprocess
from pathlib import Path

import pytest

from engine.fleet.errors import FleetError
from engine.fleet.node import NODE_FILE, NodeAddress, create_fleet, load_node
from tests.engine.fleet.cluster import Cluster, free_addresses
from tests.support.service import environ_of, run, svc


def test_fleet_created_by_command_forms_and_stores_a_bucket(cluster: Cluster, tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    options = [text for address in free_addresses(3) for text in ("--node", str(address))]
    created = run(tmp_path, environ, "fleet", "create", "keys", *options)
    assert created.returncode == 0, created.stderr
    assert created.stdout.endswith("then: svc serve --bucket node1\n")
    nodes = [
        subprocess.Popen(
            [*svc(), "fleet", "run", str(tmp_path / "keys" / f"node{number}")],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 2, 3)
    ]
    try:
        for number, node in enumerate(nodes, 1):
            assert node.stdout is not None
            assert re.fullmatch(
                rf"node n{number}-\w+  127\.0\.0\.1:\d+  of 3 nodes\n", node.stdout.readline()
            )
            assert node.stdout.readline() == "ready\n"
        again = run(tmp_path, environ, "fleet", "run", "keys/node1")
        assert again.returncode == 1
        assert "keys/node1 is in use by process" in again.stderr
        verified = run(tmp_path / "keys", environ, "bucket", "verify", "node2")
        assert verified.returncode == 0, verified.stderr
        assert verified.stdout == "verified 0 blobs, 0 B\n"
    finally:
        for node in nodes:
            node.terminate()
        assert [node.wait(30) for node in nodes] == [0, 0, 0]
        for node in nodes:
            node.communicate()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_fleet_needs_three_or_five_nodes(tmp_path: Path, count: int) -> None:
    with pytest.raises(FleetError, match=f"a fleet of {count} nodes cannot be created"):
        create_fleet(tmp_path / "keys", [NodeAddress("127.0.0.1", 4000 + number) for number in range(count)])


def test_files_of_a_fleet_are_private_and_are_not_overwritten(tmp_path: Path) -> None:
    addresses = [NodeAddress("10.0.0.1"), NodeAddress("fd00::1", 5000), NodeAddress("n3.example")]
    folders = create_fleet(tmp_path / "keys", addresses)
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "keys").rglob("*")} == {0}
    settings, nodes = load_node(folders[1])
    assert (settings.listen, settings.route, settings.monitor) == (
        "[fd00::1]:5000",
        "[fd00::1]:7000",
        "127.0.0.1:9000",
    )
    assert nodes == addresses
    with pytest.raises(FleetError, match="keys exists"):
        create_fleet(tmp_path / "keys", addresses)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "not found"), ("{", "is corrupt"), ("[]", "is corrupt"), ('{"format": 2}', "has format 2")],
)
def test_unusable_node_folder_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / NODE_FILE).write_text(content)
    with pytest.raises(FleetError, match=f"{NODE_FILE} {message}"):
        load_node(tmp_path)


def test_run_names_a_port_that_is_taken(tmp_path: Path) -> None:
    addresses = free_addresses(3)
    create_fleet(tmp_path / "keys", addresses)
    with socket.create_server(("127.0.0.1", addresses[0].port)):
        result = run(tmp_path, environ_of(tmp_path / "home"), "fleet", "run", "keys/node1")
    assert result.returncode == 1
    assert f"cannot listen on {addresses[0]}: Address already in use" in result.stderr
