"""Files of a node."""

import asyncio
import socket
from pathlib import Path

import pytest

from engine.fleet.errors import FleetError, FleetStopped
from engine.fleet.fleet import Fleet
from engine.fleet.nats_server import configuration
from engine.fleet.node import NODE_FILE, NODE_FOLDER, FleetNode, NodeAddress, check_address, found_node
from tests.engine.fleet.cluster import free_addresses


def test_files_of_a_node_are_private_and_are_not_overwritten(tmp_path: Path) -> None:
    node = found_node(tmp_path / "fleet", NodeAddress("fd00::1", 5000))
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "fleet").rglob("*")} == {0}
    assert FleetNode.read(tmp_path / "fleet") == node
    text = configuration(tmp_path / "fleet", node, 1)
    for line in ('listen: "[fd00::1]:5000"', 'listen: "[fd00::1]:7000"', 'http: "127.0.0.1:9000"'):
        assert line in text
    with pytest.raises(FleetError, match="fleet belongs to a node already"):
        found_node(tmp_path / "fleet", node.address)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "not found"), ("{", "is corrupt"), ("[]", "is corrupt"), ('{"format": 4}', "has format 4")],
)
def test_unusable_node_folder_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / NODE_FILE).write_text(content)
    with pytest.raises(FleetError, match=f"{NODE_FILE} {message}"):
        FleetNode.read(tmp_path)


def test_port_that_is_taken_is_named() -> None:
    address = free_addresses(1)[0]
    taken = pytest.raises(FleetError, match=f"cannot listen on {address}: Address already in use")
    with socket.create_server(("127.0.0.1", address.port)), taken:
        check_address(address)


def test_wait_for_the_ports_of_a_former_process_ends_with_the_service(tmp_path: Path) -> None:
    address = free_addresses(1)[0]
    found_node(tmp_path / NODE_FOLDER, address).save(tmp_path / NODE_FOLDER, state="member")

    async def main() -> None:
        fleet = Fleet(tmp_path, "1.0.0", lambda level, line: None, lambda fleet: pytest.fail("serves"))
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, stop.set)
        with socket.create_server(("127.0.0.1", address.port)), pytest.raises(FleetStopped):
            async with asyncio.timeout(60):
                await fleet.open(stop)

    asyncio.run(main())
