"""`make fleet-faults`: all faults, those that are named, or random ones of these for some `HOURS`.

`SEED=7` repeats the choices of a run.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.faults.applications import default_cache
from tests.faults.cases import CASES, Case, Need
from tests.faults.disks import Disk, Ext4Disk
from tests.faults.history import Verdict
from tests.faults.older_nats import install_older_nats
from tests.faults.suite import differing_copies, faulty_fleet, isolate, lacking, run_case

HISTORIES = Path(".svc/fleet-faults")
DISKS: dict[Need, type[Disk]] = {"small-disks": Disk, "ext4-disks": Ext4Disk}
TOTALS = ("acked", "missing", "twice", "foreign", "stale", "broken")


def main(selected: Sequence[str], seed: int, hours: float) -> int:
    """Run cases, print a line for each, and return the exit status."""
    print(f"seed {seed}", flush=True)
    reasons = {need: lacking(need) for need in {case.need for case in CASES}}
    cases: list[Case] = []
    for case in CASES:
        if not selected or case.name in selected:
            if reasons[case.need]:
                print(f"{case.name:15} SKIPPED: this machine lacks {reasons[case.need]}", flush=True)
            else:
                cases.append(case)
    verdicts: list[Verdict] = []
    differing: list[str] = []
    for disk in (None, Disk, Ext4Disk):
        group = [case for case in cases if DISKS.get(case.need) is disk]
        # Random faults are of one fleet: of those with disks only if no others are named.
        if not group or (hours and verdicts):
            continue
        network = disk is None and not reasons["network"]
        with (
            tempfile.TemporaryDirectory(prefix="svc-faults-") as folder,
            faulty_fleet(Path(folder), default_cache(), network=network, disk=disk) as fleet,
        ):
            for number, case in enumerate(_random(group, seed, hours) if hours else group):
                verdict = run_case(fleet, case, seed + number, HISTORIES)
                verdicts.append(verdict)
                state = (
                    "ok" if verdict.sound else f"FAILED, see {HISTORIES}/{case.name}-{seed + number}.jsonl"
                )
                print(
                    f"{case.name:15} {case.what:60} acked {verdict.acked:5}  unknown {verdict.unknown:3}"
                    f"  pause {verdict.stall:4.1f} s  {state}",
                    flush=True,
                )
            differing += differing_copies(fleet, Path(folder) / "scratch")
    checked, flagged = (sum(getattr(each, name) for each in verdicts) for name in ("entries", "flagged"))
    print(f"log checked={checked} flagged={flagged}")
    totals = (f"{name}={sum(getattr(each, name) for each in verdicts)}" for name in TOTALS)
    print(f"fleet faults={len(verdicts)} {' '.join(totals)} differ={len(differing)} {' '.join(differing)}")
    return 0 if all(verdict.sound for verdict in verdicts) and not differing else 1


def _random(cases: Sequence[Case], seed: int, hours: float) -> Iterator[Case]:
    chance, end = random.Random(seed), time.monotonic() + hours * 3600
    repeatable = [case for case in cases if not case.changes]
    while time.monotonic() < end:
        yield chance.choice(repeatable)


if __name__ == "__main__":
    install_older_nats()
    isolate(sys.argv[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=" ".join(case.name for case in CASES))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--hours", type=float, default=0.0)
    given = parser.parse_args()
    if unknown := set(given.faults) - {case.name for case in CASES}:
        parser.error(f"unknown faults: {', '.join(sorted(unknown))}")
    sys.exit(main(given.faults, given.seed, given.hours))
