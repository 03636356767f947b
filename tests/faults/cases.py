"""The faults: each is caused while clients write, and repaired before the check."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Literal

from doors.tables.replication.copy import read_log_position
from doors.tables.sqlite.connections import open_replica
from engine.fleet.connection import NatsConnection
from engine.fleet.tables_log import STREAM, TablesLog
from tests.faults.clients import Nodes
from tests.faults.deploys import Deploys
from tests.faults.faulty_fleet import NAMESPACE, FaultyFleet
from tests.faults.jobs_faults import jobs_under_kills
from tests.faults.older_nats import FOLDER, VERSION
from tests.faults.tables_faults import (
    DAMAGES,
    ROUNDS,
    damaged_mark,
    early_leader,
    entry_that_does_not_fit,
    full_quota,
    many_damages,
    refused_schemas,
    schemas_of_two_nodes,
    stopped_writer,
)
from tests.support.network import CUT, Link
from tests.support.waiting import until

CUT_SECONDS = 20.0
SLOW = Link(delay=0.2, loss=0.05)
SLOW_SYNC_US = 300_000
JUMPS = (3600, -3600, 0)
"""Differences of a clock from that of the machine, one after another, in seconds."""
FAR_ROWS, FAR_ROW_BYTES = 60, 1_000_000
"""Rows after which the log of a small file is trimmed, but for the last two snapshots."""


def leader_and_follower_killed(fleet: FaultyFleet) -> None:
    """Kill the leader of the log and another node at once."""
    leader = fleet.leader()
    fleet.kill(leader, next(node for node in fleet.alive if node != leader))


def rolling_stop(fleet: FaultyFleet) -> None:
    """Drain, stop and start each node, as for an upgrade."""
    for node in list(fleet.alive):
        fleet.command(node, "upgrade")
        fleet.stop(node)


def older_servers(fleet: FaultyFleet) -> None:
    """Replace each nats-server by an older one, one node after another, and then by the newer one again."""
    path = f"{FOLDER / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for environ in ({"PYTHONPATH": str(FOLDER), "PATH": path}, {}):
        for node in list(fleet.alive):
            fleet.command(node, "upgrade")
            fleet.restart_with(node, environ)
            assert (fleet.server_version(node) == VERSION) is bool(environ)
            fleet.wait_for_copies()


def leader_cut(fleet: FaultyFleet) -> None:
    """Cut the machine of the leader from all others; clients still reach it."""
    leader = fleet.leader()
    others = [node for node in fleet.alive if node != leader]
    with fleet.links(CUT, *((leader, node) for node in others), *((node, leader) for node in others)):
        time.sleep(CUT_SECONDS)


def leader_mute(fleet: FaultyFleet) -> None:
    """Lose what the machine of the leader sends to the others; it receives what they send."""
    leader = fleet.leader()
    with fleet.links(CUT, *((leader, node) for node in fleet.alive if node != leader)):
        time.sleep(CUT_SECONDS)


def all_cut(fleet: FaultyFleet) -> None:
    """Cut all machines from each other."""
    with fleet.links(CUT, *permutations(fleet.alive, 2)):
        time.sleep(CUT_SECONDS)


def slow_links(fleet: FaultyFleet) -> None:
    """Delay all packets, and lose some."""
    with fleet.links(SLOW, *permutations(fleet.alive, 2)):
        time.sleep(CUT_SECONDS)


def agent_cut(fleet: FaultyFleet) -> None:
    """Add a machine without data, and cut it from the others."""
    agent = fleet.join(keeper=False)
    pairs = [(node, agent) for node in fleet.alive if node != agent]
    with fleet.links(CUT, *pairs, *((agent, node) for node, _ in pairs)):
        time.sleep(CUT_SECONDS)


def slow_disk(fleet: FaultyFleet) -> None:
    """Delay each write of the leading nats-server to its disk."""
    calls = "fsync,fdatasync"
    options = ("-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}")
    inject = ("-e", f"inject={calls}:delay_exit={SLOW_SYNC_US}")
    tracer = subprocess.Popen(["strace", *options, *inject, "-p", str(fleet.server(fleet.leader()))])
    try:
        time.sleep(CUT_SECONDS)
        assert tracer.poll() is None
    finally:
        tracer.terminate()
        tracer.wait()


def clock_jumps(fleet: FaultyFleet) -> None:
    """Move the clock of a service by an hour, forward and back."""
    node = fleet.leader()
    root = fleet.machines.root
    library, difference = root / "clock.so", root / "clock"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    difference.write_text("0")
    fleet.machines.kill(node)
    fleet.restart_with(node, {"LD_PRELOAD": str(library), "SVC_TEST_CLOCK": str(difference)})
    try:
        for seconds in JUMPS:
            difference.write_text(str(seconds))
            time.sleep(5)
            warnings = fleet.status_warnings(next(each for each in fleet.alive if each != node))
            warned = f"the clock of {fleet.id(node)} is 60 min" in warnings
            assert warned == bool(seconds), (seconds, warnings)
    finally:
        difference.write_text("0")


def far_behind(fleet: FaultyFleet) -> None:
    """Stop a node until the log is trimmed beyond its copy, and delete the copy of another one."""
    behind = fleet.follower()
    fleet.machines.kill(behind)
    with closing(open_replica(fleet.tables(behind))) as connection:
        position = read_log_position(connection).sequence
    nodes = Nodes(fleet.machines, [node for node in fleet.alive if node != behind])
    writer = nodes.numbers[0]

    def write(sql: str, *params: object) -> None:
        body = {"sql": sql, "params": list(params), "write": True}
        until(lambda: nodes.sql(writer, body).status_code == 200, 120)

    try:
        write("CREATE TABLE IF NOT EXISTS far (id INTEGER PRIMARY KEY, data BLOB)")

        async def trimmed(connection: NatsConnection) -> int:
            log = TablesLog(connection, NAMESPACE, "", "", set)
            return (await log.snapshots("shop")).trimmed

        number, end = 0, time.monotonic() + 240
        while number < FAR_ROWS or fleet.ask(trimmed, writer) <= position:
            assert time.monotonic() < end
            write("INSERT OR REPLACE INTO far VALUES ($1, randomblob($2))", number % FAR_ROWS, FAR_ROW_BYTES)
            number += 1
        fleet.machines.restart(behind)
        fleet.wait_for_copies()
        cold = next(node for node in fleet.alive if node != writer and node != behind)
        fleet.machines.kill(cold)
        shutil.rmtree(fleet.folder(cold) / "projects")
        fleet.machines.restart(cold)
        write("DROP TABLE far")
    finally:
        nodes.close()


def _damage(path: Path, begin: int, size: int) -> None:
    content = path.read_bytes()
    part = bytes(byte ^ 0xFF for byte in content[begin : begin + size])
    path.write_bytes(content[:begin] + part + content[begin + size :])


def _blocks(fleet: FaultyFleet, node: int, stream: str = "") -> list[Path]:
    store = fleet.folder(node) / "fleet" / "nats" / "store"
    return [path for path in store.rglob("*.blk") if stream in path.parts or not stream]


def damaged_keeper(fleet: FaultyFleet) -> None:
    """Damage the files of a keeper that does not run; it takes all data from the others."""
    node = fleet.follower()
    fleet.machines.kill(node)
    for block in _blocks(fleet, node):
        size = block.stat().st_size
        _damage(block, size // 2, size)
    fleet.command(node, "reseed")
    fleet.machines.restart(node)


def damaged_leader(fleet: FaultyFleet) -> None:
    """Damage 64 bytes of the log on a keeper, which then leads; later it takes all data from the others."""
    node = fleet.follower()
    fleet.machines.kill(node)
    block = max(_blocks(fleet, node, STREAM), key=lambda path: path.stat().st_size)
    _damage(block, block.stat().st_size // 2, 64)
    fleet.machines.restart(node)
    fleet.wait_for_copies()
    fleet.lead(node)
    cold = next(each for each in fleet.alive if each != node)
    fleet.machines.kill(cold)
    shutil.rmtree(fleet.folder(cold) / "projects")
    fleet.machines.restart(cold)
    time.sleep(5)
    fleet.machines.kill(node)
    fleet.command(node, "reseed")
    fleet.machines.restart(node)
    fleet.wait_for_copies()


def deploys_under_faults(fleet: FaultyFleet) -> None:
    """Deploy while nodes and nats-servers are killed."""
    deploys = Deploys(fleet.machines, list(fleet.alive))
    with deploys.running():
        deploys.wait_for_another()
        fleet.kill(fleet.leader())
        fleet.kill(fleet.follower())
        fleet.kill_servers(fleet.leader())
        deploys.wait_for_another()


def keeper_replaced(fleet: FaultyFleet) -> None:
    """Lose a keeper for ever, and replace it by a new machine."""
    lost = fleet.follower()
    fleet.machines.kill(lost)
    fleet.alive.remove(lost)
    fleet.join(keeper=True)
    fleet.command(fleet.alive[0], "remove", fleet.id(lost))


def more_keepers(fleet: FaultyFleet) -> None:
    """Add a keeper to three, and lose another one."""
    fleet.join(keeper=True)
    lost = fleet.follower()
    fleet.machines.kill(lost)
    fleet.alive.remove(lost)
    fleet.command(fleet.alive[0], "remove", fleet.id(lost))


def _fill_disks(folders: Sequence[Path]) -> None:
    """Use all space of some disks for a time, also what the nodes free meanwhile."""
    fillers = [folder / "filler" for folder in folders]
    try:
        end = time.monotonic() + CUT_SECONDS
        while time.monotonic() < end:
            for filler in fillers:
                with suppress(OSError), filler.open("ab", buffering=0) as file:
                    while True:
                        file.write(bytes(4096))
            time.sleep(0.1)
    finally:
        for filler in fillers:
            filler.unlink(missing_ok=True)


def full_disk(fleet: FaultyFleet) -> None:
    """Fill the disk of one machine."""
    _fill_disks([fleet.folder(fleet.leader())])


def full_disks(fleet: FaultyFleet) -> None:
    """Fill the disks of all machines."""
    _fill_disks([fleet.folder(node) for node in fleet.alive])


Need = Literal["", "network", "small-disks", "ext4-disks", "cc", "strace", "older-nats"]
"""Requirement of a fault: a network namespace or a disk for each node, or a program."""


@dataclass(frozen=True, slots=True)
class Case:
    """A fault. `cause` returns after its repair. One that `changes` the machines is not repeated."""

    name: str
    what: str
    cause: Callable[[FaultyFleet], None]
    need: Need = ""
    changes: bool = False


CASES: Sequence[Case] = (
    Case("none", "no fault", lambda fleet: time.sleep(5)),
    Case("leader", "kill -9 the leader of the log", lambda fleet: fleet.kill(fleet.leader())),
    Case("follower", "kill -9 another node", lambda fleet: fleet.kill(fleet.follower())),
    Case("two", "kill -9 two nodes", leader_and_follower_killed),
    Case("all", "kill -9 all nodes", lambda fleet: fleet.kill(*fleet.alive)),
    Case("nats", "kill -9 the leading nats-server", lambda fleet: fleet.kill_servers(fleet.leader())),
    Case("all-nats", "kill -9 all nats-servers", lambda fleet: fleet.kill_servers(*fleet.alive)),
    Case(
        "pause-node", "SIGSTOP a service for 6 s", lambda fleet: fleet.pause(fleet.service(fleet.leader()), 6)
    ),
    Case(
        "pause-leader",
        "SIGSTOP the leading nats-server for 15 s",
        lambda fleet: fleet.pause(fleet.server(fleet.leader()), 15),
    ),
    Case(
        "pause-follower",
        "SIGSTOP another nats-server for 20 s",
        lambda fleet: fleet.pause(fleet.server(fleet.follower()), 20),
    ),
    Case("cut-leader", "cut the leading machine from the others for 20 s", leader_cut, "network"),
    Case("cut-one-way", "lose what the leading machine sends for 20 s", leader_mute, "network"),
    Case("cut-all", "cut all machines from each other for 20 s", all_cut, "network"),
    Case("slow-links", "delay packets by 200 ms, lose 5 %, for 20 s", slow_links, "network"),
    Case("slow-disk", "delay each fsync of the leader by 300 ms for 20 s", slow_disk, "strace"),
    Case("clock", "set the clock of a service an hour ahead, then back", clock_jumps, "cc"),
    Case("rolling", "drain, stop and start each node", rolling_stop),
    Case("older-nats", "replace each nats-server by an older one, and back", older_servers, "older-nats"),
    Case("deploys", "kill nodes and nats-servers while versions are deployed", deploys_under_faults),
    Case("jobs", "kill -9 nodes and nats-servers while jobs run", jobs_under_kills),
    Case("behind", "trim the log while a node is away, delete another's tables", far_behind),
    Case("damage", "damage a keeper's files, and reseed it", damaged_keeper),
    Case("damage-leader", "damage the log of a keeper that leads, and reseed it later", damaged_leader),
    Case("quota", "fill the tables up to their quota, repeat refused writes", full_quota),
    Case("schemas", "create tables whose rows would differ", refused_schemas),
    Case("two-schemas", "change the schema through two nodes at once", schemas_of_two_nodes),
    Case("writer", "SIGSTOP the writer, and read stale for 6 s", stopped_writer),
    Case("early-leader", "elect a leader at once after the last write", early_leader, "network"),
    Case("misfit", "store an entry that others cannot apply", entry_that_does_not_fit),
    Case("mark", "damage a row of a stopped writer, then update it", damaged_mark),
    Case(
        "copies",
        f"damage the copies of a node at {ROUNDS * DAMAGES} places",
        lambda fleet: many_damages(fleet, stores=False),
    ),
    Case(
        "stores",
        f"damage the stores of a node at {ROUNDS * DAMAGES} places, and reseed it",
        lambda fleet: many_damages(fleet, stores=True),
    ),
    Case("replace", "lose a keeper, and replace it by another machine", keeper_replaced, changes=True),
    Case("agent", "add a machine without data, and cut it for 20 s", agent_cut, "network", changes=True),
    Case("grow", "add a keeper, then lose another one", more_keepers, changes=True),
    Case("full", "fill the disk of the leading machine for 20 s", full_disk, "small-disks"),
    Case("all-full", "fill the disks of all machines for 20 s", full_disks, "small-disks"),
    Case(
        "power",
        "cut the power of the leading machine",
        lambda fleet: fleet.lose_power(fleet.leader()),
        "ext4-disks",
    ),
    Case(
        "all-power",
        "cut the power of all machines",
        lambda fleet: fleet.lose_power(*fleet.alive),
        "ext4-disks",
    ),
)
"""In this order on one fleet; those that need disks of a kind on another one."""
