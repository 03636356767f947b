"""Log records of go guests: delivery to the telemetry Door without loss."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from tests.lanes.go.module import Module
from tests.lanes.go.program import artifact, module
from tests.lanes.logged import Logged, in_time, run

__all__ = ["artifact", "module"]
pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("log.go").read_text(encoding="utf-8")


@pytest.fixture
def ask(module: Module, artifact: ComponentArtifact, cache: Path) -> Callable[..., Logged]:
    def ask(target: str, run_limit_secs: int = 30) -> Logged:
        resource = Resource("api", "go", module.workdir, run_limit_secs=run_limit_secs)
        return asyncio.run(run(cache, resource, artifact, target))

    return ask


def test_records_of_a_run_arrive_in_one_batch_with_severities(ask: Callable[..., Logged]) -> None:
    logged = in_time(lambda: ask("/"))
    assert (logged.answer.status, logged.answer.lines) == (200, [])
    assert [(entry.severity, entry.body) for entry in logged.entries] == [
        ("DEBUG", "first"),
        ("INFO", "second"),
        ("WARN", "third"),
    ]
    assert logged.entries[0].attributes == {
        "lane": "go",
        "request.n": "7",
        "request.ok": "true",
        "request.err": "gone",
        "request.at.level": "2",
    }
    assert len(logged.requests) == 1


def test_panicking_run_sends_its_earlier_records(ask: Callable[..., Logged]) -> None:
    logged = ask("/panic")
    assert logged.answer.report.outcome == "guest-failed"
    assert "panicked" in logged.answer.report.detail
    assert logged.bodies == ["first"]


def test_error_record_is_sent_at_once_after_earlier_records(ask: Callable[..., Logged]) -> None:
    assert ask("/exit").bodies == ["first", "the end"]


def test_records_are_sent_before_a_long_wait(ask: Callable[..., Logged]) -> None:
    assert len(in_time(lambda: ask("/sleep"), first=1).requests) == 2


@pytest.mark.parametrize("how", ["spin", "flush"])
def test_records_sent_before_the_run_limit_arrive(ask: Callable[..., Logged], how: str) -> None:
    logged = ask(f"/{how}", run_limit_secs=2)
    assert logged.answer.report.outcome == "run-limit"
    assert logged.bodies == ["first"]


def test_many_records_arrive_in_order_in_few_batches(ask: Callable[..., Logged]) -> None:
    logged = ask("/many")
    assert logged.bodies == ["first", *(f"number {n}" for n in range(1000)), "second", "third"]
    assert len(logged.requests) < 60


def test_default_logger_can_write_records(ask: Callable[..., Logged]) -> None:
    assert ask("/default").bodies == ["first", "this", "second", "third"]
