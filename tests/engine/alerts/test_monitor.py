"""The conditions of alerts: failure rate, disk, memory, certificate, and nodes of a fleet."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from engine.alerts import alerts as monitors
from engine.alerts.alerts import CHECK_SECONDS, WINDOW_SECONDS, AlertMonitor
from engine.errors import SvcError
from engine.http.tls import Certificate
from engine.metrics.families import ServiceMeter
from engine.timeline.record import LineRecord, RequestRecord
from tests.support.certificates import self_signed

REQUEST = RequestRecord(
    1,
    "r",
    trace_id="t",
    span_id="s",
    parent="",
    resource="web",
    method="GET",
    target="/",
    status=200,
    code="",
    detail="",
    wall_ns=1,
    compute_ns=1,
    peak_memory=None,
    bytes_in=0,
    bytes_out=0,
)
FAILED = replace(REQUEST, status=500)


class Machine:
    """A monitor of a service whose memory and absent nodes the test sets."""

    def __init__(self, data: Path, certificate: Certificate | None = None) -> None:
        self.memory = (1, 100)
        self.nodes: dict[str, str] | None = {}
        self.reports = True
        self.meter = ServiceMeter()
        self.monitor = AlertMonitor(
            data,
            certificate,
            self.meter,
            memory=lambda: self.memory,
            absent=self.absent,
            url_of="https://{}.test".format,
            targets=(),
            lost=lambda alert, reason: None,
            warn=print,
        )

    async def absent(self) -> tuple[dict[str, str], bool]:
        if self.nodes is None:
            raise SvcError("no majority")
        return self.nodes, self.reports

    def check(self) -> list[tuple[str, str]]:
        """Check, and return kinds and texts of the alerts that last."""
        asyncio.run(self.monitor.check())
        return [(alert.kind, alert.text) for alert in self.monitor.alerts.active()]


def test_failure_rate_above_five_percent_with_five_failures_is_an_alert(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    follow = machine.meter.follower("shop")
    for _ in range(4):
        follow(FAILED)
    assert machine.check() == []
    follow(FAILED)
    assert machine.check() == [("failure-rate", "5 of 5 requests to shop failed within 5 minutes")]
    for _ in range(94):
        follow(REQUEST)
    assert machine.check() == [("failure-rate", "5 of 99 requests to shop failed within 5 minutes")]
    follow(REQUEST)
    assert machine.check() == []


def test_failure_rate_is_that_of_the_last_five_minutes(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    follow = machine.meter.follower("shop")
    for _ in range(5):
        follow(FAILED)
    checks = int(WINDOW_SECONDS / CHECK_SECONDS)
    for _ in range(checks):
        assert [kind for kind, _ in machine.check()] == ["failure-rate"]
    assert machine.check() == []
    follow(FAILED)
    assert machine.check() == []


def test_failure_rate_excludes_starts_clients_that_leave_and_requests_without_a_project(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    shop, none = machine.meter.follower("shop"), machine.meter.follower("")
    for _ in range(10):
        shop(replace(REQUEST, status=503, code="not-ready"))
        shop(replace(REQUEST, status=499, code="client-gone"))
        shop(LineRecord(1, "r", "web", "stderr", "failed"))
        none(FAILED)
    assert machine.check() == []


def test_memory_above_the_budget_of_runs_is_an_alert(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.memory = (99 << 20, 100 << 20)
    assert machine.check() == [("memory", "the memory budget is exhausted: 99 of 100 MiB are used")]
    machine.memory = (50 << 20, 100 << 20)
    assert machine.check() == []


def test_disk_below_the_reserve_or_unreadable_is_an_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(monitors, "shortage", lambda place: "only 3 MiB of the disk are free")
        assert machine.check() == [("disk", "only 3 MiB of the disk are free")]
    assert machine.check() == []
    (kind, text), *_ = Machine(tmp_path / "missing").check()
    assert kind == "disk" and text.startswith("the disk cannot be read: ")


def test_certificate_that_expires_or_is_unreadable_is_an_alert(tmp_path: Path) -> None:
    certificate = Certificate(*self_signed(tmp_path))
    machine = Machine(tmp_path, certificate)
    assert machine.check() == [("certificate", f"the TLS certificate {certificate.chain} expires in 0 days")]
    certificate.chain.write_text("nothing")
    ((_, text),) = machine.check()
    assert text.endswith("cannot be read")
    assert machine.monitor.alerts.active()[0].severity == "error"


def test_node_that_is_absent_twice_is_reported_until_it_is_present_or_removed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.nodes = {"n2": "10.0.0.2:4222"}
    assert machine.check() == []
    assert machine.check() == [("node-lost", "the node n2 at 10.0.0.2:4222 does not answer")]
    machine.nodes = None
    assert len(machine.check()) == 1
    machine.nodes = {"n3": "10.0.0.3:4222"}
    assert machine.check() == []
    assert [text for _, text in machine.check()] == ["the node n3 at 10.0.0.3:4222 does not answer"]


def test_lost_node_is_reported_by_one_node_only(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.nodes, machine.reports = {"n1": "10.0.0.1:4222"}, False
    assert [machine.check(), machine.check()] == [[], []]
    machine.reports = True
    assert [kind for kind, _ in machine.check()] == ["node-lost"]
