"""`svc fleet drain`, `upgrade`, `remove` and `reseed` on running nodes, in the order of this file."""

import json
import shutil
import signal
import subprocess
import threading
from contextlib import closing
from typing import Any

import httpx
import pytest

from doors.tables.sqlite.connections import apsw
from engine.files.database_files import remove_database
from engine.fleet.fleet import COPIES
from tests.engine.fleet.machines import INSERT, TEXTS, Machines
from tests.faults.faulty_fleet import FaultyFleet
from tests.support.service import run
from tests.support.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.slow(seconds=60)]
COUNT = "SELECT count(*) AS n FROM entries"


@pytest.fixture(scope="module", autouse=True)
def formed(machines: Machines) -> None:
    """Make the service a fleet of three nodes."""
    machines.form()
    until(lambda: all(node["present"] for node in status(machines)))


def status(machines: Machines, number: int = 1) -> list[dict[str, Any]]:
    """Return the nodes as one of them observes them."""
    answer = machines.client.get(f"{machines.servers[number - 1].control}/v1/fleet")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["nodes"])


def node_id(machines: Machines, number: int) -> str:
    return str(json.loads((machines.root / f"m{number}" / "fleet" / "fleet.json").read_bytes())["node"])


def run_fleet(machines: Machines, number: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `svc fleet` for a node."""
    return run(machines.project, machines.environ, "fleet", *arguments, *machines.data(number))


def fleet(machines: Machines, number: int, *arguments: str) -> str:
    """Run `svc fleet` for a node, and return what it prints."""
    done = run_fleet(machines, number, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(machines: Machines, number: int, *arguments: str) -> str:
    """Run `svc fleet` for a node, and return the error."""
    done = run_fleet(machines, number, *arguments)
    assert done.returncode == 1, done.stdout
    return done.stderr


def is_drained(machines: Machines, number: int) -> bool:
    try:
        machines.servers[number - 1].get()
    except httpx.ConnectError:
        return True
    return False


def test_operation_waits_for_a_heartbeat_of_another_node(machines: Machines) -> None:
    def signal_others(number: signal.Signals) -> None:
        for server in machines.servers[:2]:
            server.process.send_signal(number)

    third = node_id(machines, 3)
    signal_others(signal.SIGSTOP)
    try:
        until(lambda: [node["id"] for node in status(machines, 3) if node["present"]] == [third])
        threading.Timer(0.5, signal_others, [signal.SIGCONT]).start()
        answer = machines.client.delete(f"{machines.servers[2].control}/v1/fleet/nodes/n9-x")
    finally:
        signal_others(signal.SIGCONT)
    assert "has no node n9-x" in answer.text


def test_drained_node_takes_no_requests_until_it_is_started_again(machines: Machines) -> None:
    assert machines.servers[2].get().text == "one"
    printed = fleet(machines, 3, "drain")
    assert printed.startswith(f"{node_id(machines, 3)} takes no requests")
    assert is_drained(machines, 3)
    third = node_id(machines, 3)
    until(lambda: [node["id"] for node in status(machines) if node["draining"]] == [third])
    assert "3 of 3 nodes present, 1 of them draining" in fleet(machines, 1, "status")
    assert [
        httpx.get(f"{server.control}/v1/ready", timeout=60).status_code for server in machines.servers
    ] == [
        200,
        200,
        503,
    ]
    assert machines.servers[0].get().text == "one"
    assert machines.write(1, INSERT, "while a node is drained").status_code == 200
    assert f"{node_id(machines, 3)} is drained" in refused(machines, 2, "upgrade")
    assert machines.servers[2].stop() == 0
    machines.restart(3)
    assert machines.servers[2].get().text == "one"
    until(lambda: not any(node["draining"] for node in status(machines)))


def test_copy_of_a_node_beside_it_is_refused(machines: Machines) -> None:
    copy = machines.root / "copy"
    shutil.copytree(machines.folder(2), copy)
    listen = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
    done = run(machines.project, machines.environ, "serve", "--data", str(copy), *listen)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 2, done.stderr
    assert f"another process uses {machines.addresses[1]}" in done.stderr


def test_chosen_copy_of_tables_replaces_those_of_the_others(machines: Machines) -> None:
    assert machines.write(1, INSERT, "right").status_code == 200
    before = machines.everywhere(TEXTS)
    third = node_id(machines, 3)
    assert "are equal" in fleet(machines, 1, "repair", "shop", "--from", third)
    # No two copies are equal, so that svc cannot choose one.
    for number, change in ((1, "DELETE FROM entries"), (2, "UPDATE entries SET text = 'wrong'")):
        path = machines.folder(number) / "projects/shop/tables/tables.db"
        with closing(apsw.Connection(str(path))) as foreign:
            foreign.execute(f"{change} WHERE text = 'right'")
    assert machines.rows(1, TEXTS) == before[:-1]
    assert "Pass --yes" in run_fleet(machines, 1, "repair", "shop", "--from", third).stderr
    assert "does not run" in refused(machines, 1, "repair", "shop", "--from", "n9-x", "--yes")
    assert "has no tables" in refused(machines, 1, "repair", "other", "--from", "n9-x", "--yes")
    printed = fleet(machines, 1, "repair", "shop", "--from", third, "--yes")
    assert node_id(machines, 1) in printed and node_id(machines, 2) in printed
    until(lambda: machines.rows(1, TEXTS) == machines.rows(2, TEXTS) == before)
    assert "are equal" in fleet(machines, 2, "repair", "shop", "--from", third)
    assert machines.write(1, "DELETE FROM entries WHERE text = 'right'").status_code == 200


def test_status_and_upgrade_name_the_project_whose_copy_is_not_up_to_date(machines: Machines) -> None:
    tables = machines.folder(2) / "projects/shop/tables"
    machines.kill(2)
    remove_database(tables / "tables.db")
    (tables / "tables.db").mkdir()  # It cannot be opened.
    machines.restart(2)
    second = node_id(machines, 2)
    assert machines.post(2, "sql", {"sql": COUNT}).status_code == 503
    until(lambda: f"the tables of shop on {second}" in run_fleet(machines, 1, "status").stderr)
    assert f"the tables of shop on {second} are not up to date" in refused(machines, 1, "upgrade")
    (tables / "tables.db").rmdir()
    until(lambda: machines.post(2, "sql", {"sql": COUNT}).status_code == 200)
    until(lambda: run_fleet(machines, 1, "status").stderr == "")


def test_upgrade_drains_one_node_while_all_others_run(machines: Machines) -> None:
    until(lambda: all(node["present"] for node in status(machines, 2)))
    document = json.loads(fleet(machines, 2, "upgrade", "--json"))
    assert document["node"] == node_id(machines, 2)
    assert is_drained(machines, 2)
    assert machines.servers[1].stop() == 0
    until(lambda: not all(node["present"] for node in status(machines)))
    assert f"{node_id(machines, 2)} is away" in refused(machines, 1, "upgrade")
    machines.restart(2)
    until(lambda: all(node["present"] for node in status(machines)))


def test_remove_refuses_nodes_that_run_or_without_which_writes_could_stop(machines: Machines) -> None:
    assert "has no node n9-x" in refused(machines, 1, "remove", "n9-x")
    third = node_id(machines, 3)
    message = refused(machines, 1, "remove", third)
    assert f"the node {third} is running" in message
    assert "svc fleet drain" in message
    machines.kill(3)
    until(lambda: not all(node["present"] for node in status(machines)))
    message = refused(machines, 1, "remove", third)
    assert f"without the keeper {third}, 2 keepers run" in message
    assert "svc fleet token --keeper" in message


def test_lost_keeper_is_replaced_by_a_new_machine(machines: Machines) -> None:
    third = node_id(machines, 3)
    token = fleet(machines, 1, "token", "--keeper").strip()
    machines.servers.append(machines.join(4, token))
    fourth = node_id(machines, 4)
    assert machines.write(4, INSERT, "through the new keeper").status_code == 200
    until(lambda: {node["id"] for node in status(machines, 1) if node["present"]} >= {fourth})
    assert third in fleet(machines, 1, "remove", third)
    assert {node["id"] for node in status(machines, 2)} == {node_id(machines, number) for number in (1, 2, 4)}
    assert {node["role"] for node in status(machines, 2)} == {"keeper"}

    def addresses(number: int) -> list[list[Any]]:
        document = json.loads((machines.root / f"m{number}" / "fleet" / "fleet.json").read_bytes())
        return list(document["nodes"])

    removed = [machines.addresses[2].host, machines.addresses[2].port]
    for number in (1, 2, 4):
        until(lambda number=number: removed not in addresses(number))
    again = run(
        machines.project, machines.environ, "serve", *machines.data(3),
        "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
    )  # fmt: skip
    assert again.returncode == 1
    assert f"the node {third} was removed from the fleet" in again.stderr
    machines.kill(1)
    assert machines.write(4, INSERT, "without the first node").status_code == 200
    assert machines.everywhere(COUNT, (2, 4)) == [{"n": 3}]
    machines.restart(1)
    assert machines.everywhere(COUNT, (1, 2, 4)) == [{"n": 3}]


def test_reseeded_node_has_all_data_again(machines: Machines) -> None:
    assert "is in use" in refused(machines, 2, "reseed")
    machines.kill(2)
    store = machines.root / "m2" / "fleet" / "nats" / "store"
    blocks = [path for path in store.rglob("*.blk") if path.stat().st_size > 200]
    for path in blocks:
        path.write_bytes(b"damaged" * 20)
    # The first node may still receive what it missed.
    until(
        lambda: run(machines.project, machines.environ, "fleet", "reseed", *machines.data(2)).returncode == 0
    )
    assert not store.exists()
    tables = machines.root / "m2" / "projects" / "shop" / "tables"
    assert [path for path in tables.iterdir() if ".aside-" not in path.name] == []
    machines.restart(2)
    until(lambda: all(node["present"] for node in status(machines)))
    assert machines.everywhere(COUNT, (1, 2, 4)) == [{"n": 3}]
    until(lambda: all(len(each.current) == COPIES for each in FaultyFleet(machines).copies()))
    machines.kill(1)
    assert machines.write(2, INSERT, "after the reseed").status_code == 200
    assert machines.everywhere(COUNT, (2, 4)) == [{"n": 4}]


def test_last_node_that_runs_is_not_removed(machines: Machines) -> None:
    machines.kill(4)
    last = node_id(machines, 2)

    def present() -> int:
        return sum(node["present"] for node in json.loads(fleet(machines, 2, "status", "--json"))["nodes"])

    until(lambda: present() == 1)
    assert f"{last} is the last node that runs" in refused(machines, 2, "remove", last)
    assert f"{last} is the last node that runs" in refused(machines, 2, "drain")
    reseeding = refused(machines, 1, "reseed")
    assert "the other keepers do not answer" in reseeding or "no two current copies on other" in reseeding
    printed = run(machines.project, machines.environ, "fleet", "status", *machines.data(2))
    assert printed.stdout.count("away") == 2
    assert "this node is not in contact with a majority" in printed.stderr
    assert machines.servers[1].get().text == "one"
    refusal = machines.write(2, INSERT, "without a majority")
    assert (refusal.status_code, "majority" in refusal.json()["hint"]) == (503, True), refusal.text
