"""The short set of `make fleet-faults`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cases import CASES, Case
from tests.faults.faulty_fleet import FaultyFleet
from tests.faults.history import History, Outcome, Read, Write
from tests.faults.suite import faulty_fleet, run_case
from tests.support.fleet import require_nats

SHORT = ("leader", "all-nats", "pause-node")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[FaultyFleet]:
    require_nats()
    with faulty_fleet(tmp_path_factory.mktemp("faults ü"), cache) as running:
        yield running


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize("case", [case for case in CASES if case.name in SHORT], ids=lambda case: case.name)
def test_acknowledged_writes_are_on_all_nodes_once_after(fleet: FaultyFleet, case: Case) -> None:
    verdict = run_case(fleet, case, 1, Path(".svc/fleet-faults"))
    assert verdict.sound, verdict


def write(text: str, outcome: Outcome) -> Write:
    return Write(text=text, node=1, begin=1.0, end=2.0, outcome=outcome, answer="")


def read(found: int, count: int, acked: int, broken: str = "") -> Read:
    return Read(text="a", node=2, begin=3.0, end=4.0, found=found, count=count, acked=acked, broken=broken)


@pytest.mark.parametrize(
    ("rows", "reads", "problem"),
    [
        ([["a", "b"], ["a", "b"]], [read(1, 1, 1)], None),
        ([["a"], ["a"]], [read(1, 1, 1)], None),
        ([["a"], []], [], "missing"),
        ([["a", "a"], ["a", "a"]], [], "twice"),
        ([["a", "c"], ["a", "c"]], [], "foreign"),
        ([["a", "b"], ["a"]], [], "differ"),
        ([["a"], ["a"]], [read(0, 1, 1)], "stale"),
        ([["a"], ["a"]], [read(1, 0, 1)], "stale"),
        ([["a"], ["a"]], [read(0, 0, 0)], None),
        ([["a"], ["a"]], [read(1, 1, 1, "1430 0 0 0 400")], "broken"),
    ],
)
def test_checker_names_what_is_wrong(rows: list[list[str]], reads: list[Read], problem: str | None) -> None:
    history = History("case", 1, [write("a", "acked"), write("b", "unknown"), write("c", "refused")], reads)
    verdict = history.check(rows)
    assert verdict.sound is (problem is None)
    assert problem is None or getattr(verdict, problem)


def test_history_of_a_failure_is_stored(tmp_path: Path) -> None:
    history = History("case", 7, [write("a", "acked")], [read(1, 0, 1)])
    history.save(tmp_path / "runs", history.check([["a"]]))
    head, *operations = (tmp_path / "runs" / "case-7.jsonl").read_text().splitlines()
    assert '"seed": 7' in head
    assert '"stale": 1' in head
    assert len(operations) == 2
