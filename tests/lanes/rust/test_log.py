"""Log records of rust guests: delivery to the telemetry Door without loss."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from tests.lanes.logged import Logged, in_time, run
from tests.lanes.rust.crate import Crate, handler

pytestmark = pytest.mark.slow
SOURCE = handler("""
    use std::time::Duration;
    log::debug!("first", n = 7, ok = true, rate = 0.5, name = "ü", none = None::<&str>);
    match request.path() {
        "/fail" => return Err("failed".into()),
        "/panic" => panic!("panicked"),
        "/exit" => { log::error!("the end"); std::process::exit(3) }
        "/sleep" => sleep(Duration::from_millis(300)),
        "/spin" => { sleep(Duration::from_millis(300)); loop { std::hint::black_box(()) } }
        "/flush" => { log::flush(); loop { std::hint::black_box(()) } }
        "/many" => for n in 0..1000 { log::info!("number {n}") },
        "/stream" => return Ok(Response::stream(|out| {
            use std::io::Write;
            out.write_all(b"one")?;
            log::warn!("in the stream");
            Ok(())
        })),
        _ => {}
    }
    log::trace!("second");
    log::warn!("third");
    Ok(Response::text("hello"))
""")


@pytest.fixture(scope="module")
def crate(new_crate: Callable[[], Crate]) -> Crate:
    crate = new_crate()
    crate.program(SOURCE)
    return crate


@pytest.fixture(scope="module")
def artifact(crate: Crate) -> ComponentArtifact:
    return crate.build("deploy")


@pytest.fixture
def ask(crate: Crate, artifact: ComponentArtifact, cache: Path) -> Callable[..., Logged]:
    def ask(target: str, run_limit_secs: int = 30) -> Logged:
        resource = Resource("api", "rust", crate.workdir, run_limit_secs=run_limit_secs)
        return asyncio.run(run(cache, resource, artifact, target))

    return ask


def test_records_of_a_run_arrive_in_one_batch_with_severities(ask: Callable[..., Logged]) -> None:
    logged = in_time(lambda: ask("/"))
    assert (logged.answer.status, logged.answer.lines) == (200, [])
    assert [(entry.severity, entry.body) for entry in logged.entries] == [
        ("DEBUG", "first"),
        ("TRACE", "second"),
        ("WARN", "third"),
    ]
    assert logged.entries[0].attributes == {"n": "7", "ok": "true", "rate": "0.5", "name": "ü", "none": ""}
    assert len(logged.requests) == 1


@pytest.mark.parametrize("how", ["fail", "panic"])
def test_failing_run_sends_its_earlier_records(ask: Callable[..., Logged], how: str) -> None:
    logged = ask(f"/{how}")
    assert logged.answer.report.outcome == "guest-failed"
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


def test_streamed_response_sends_its_records(ask: Callable[..., Logged]) -> None:
    logged = ask("/stream")
    assert (logged.answer.body, logged.bodies) == (b"one", ["first", "in the stream"])
