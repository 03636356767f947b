"""Log records of js guests: delivery to the telemetry Door without loss."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes.js.sources import Sources
from tests.lanes.logged import Logged, in_time, run

pytestmark = pytest.mark.slow
SOURCE = """\
import { log, sleep, stream } from '@svc/guest';

log.info('while the module is loaded');
const circle = { name: 'circle' };
circle.self = circle;

const routes = {
  '/': () => new Response('hello'),
  '/kinds': () => {
    log.warn(42, { big: 12n, none: undefined, nil: null, when: new Date(0), list: [1, 'two'], circle,
      error: new TypeError('no'), nan: NaN, get bad() { throw new Error('hostile'); } });
    return new Response('hello');
  },
  '/throw': () => { throw new Error('thrown'); },
  '/timer': async () => { setTimeout(() => { throw new Error('thrown'); }, 0); await sleep(5000); },
  '/error': () => { log.error('the end'); for (;;); },
  '/flush': () => { log.flush(); for (;;); },
  '/sleep': async () => { await sleep(300); return new Response('hello'); },
  '/spin': async () => { await sleep(100); for (;;); },
  '/many': () => { for (let n = 0; n < 1000; n++) log.info(`number ${n}`); return new Response('hello'); },
  '/stream': () => stream(async (write) => {
    await write('one');
    log.trace('in the stream');
    await write('two');
    log.trace('at its end');
  }),
  '/beside': async () => {
    const body = '{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"fetched"}}]}]}]}';
    const headers = { 'content-type': 'application/json' };
    const url = `${process.env.SVC_TELEMETRY_ENDPOINT}/v1/logs`;
    const answers = await Promise.all([1, 2, 3].map(async () => {
      log.error('beside');
      return (await fetch(url, { method: 'POST', headers, body })).status;
    }));
    return new Response(answers.join());
  },
};

export default {
  async fetch(request) {
    log.debug('first', { n: 7, ok: true, rate: 0.5, name: 'ü' });
    const response = await routes[new URL(request.url).pathname]();
    console.log('printed');
    return response;
  },
};
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Sources:
    sources = Sources(tmp_path_factory.mktemp("log ü").resolve(), cache)
    sources.write("index.js", SOURCE)
    return sources


@pytest.fixture(scope="module", params=["dev", "deploy"])
def artifact(sources: Sources, request: pytest.FixtureRequest) -> ComponentArtifact:
    return sources.build(request.param)


@pytest.fixture
def ask(sources: Sources, artifact: ComponentArtifact, cache: Path) -> Callable[..., Logged]:
    def ask(target: str, run_limit_secs: int = 30) -> Logged:
        resource = replace(sources.resource, run_limit_secs=run_limit_secs)
        logged = asyncio.run(run(cache, resource, artifact, target))
        logged.answer.lines = [line for line in logged.answer.lines if "while the module" not in line[1]]
        return logged

    return ask


def test_records_of_a_run_arrive_in_one_batch_with_severities(ask: Callable[..., Logged]) -> None:
    logged = in_time(lambda: ask("/kinds"))
    assert (logged.answer.status, logged.answer.lines) == (200, [("stdout", "printed")])
    assert [(entry.severity, entry.body) for entry in logged.entries] == [("DEBUG", "first"), ("WARN", "42")]
    assert logged.entries[0].attributes == {"n": "7", "ok": "true", "rate": "0.5", "name": "ü"}
    assert logged.entries[1].attributes == {
        "big": "12",
        "nil": "",
        "when": "1970-01-01T00:00:00.000Z",
        "list": '[1,"two"]',
        "circle": '{"name":"circle","self":"[circular]"}',
        "error": "TypeError: no",
        "nan": "NaN",
        "bad": "[Error: hostile]",
    }
    assert len(logged.requests) == 1


@pytest.mark.parametrize("how", ["throw", "timer"])
def test_failing_run_sends_its_earlier_records(ask: Callable[..., Logged], how: str) -> None:
    logged = ask(f"/{how}")
    assert (logged.answer.report.outcome, logged.answer.report.detail) == ("guest-failed", "Error: thrown")
    assert logged.bodies == ["first"]


def test_error_record_is_sent_at_once_after_earlier_records(ask: Callable[..., Logged]) -> None:
    assert ask("/error", run_limit_secs=2).bodies == ["first", "the end"]


def test_records_are_sent_before_a_long_wait(ask: Callable[..., Logged]) -> None:
    logged = ask("/sleep")
    assert (logged.answer.body, logged.bodies) == (b"hello", ["first"])


@pytest.mark.parametrize("how", ["spin", "flush"])
def test_records_sent_before_the_run_limit_arrive(ask: Callable[..., Logged], how: str) -> None:
    logged = ask(f"/{how}", run_limit_secs=2)
    assert logged.answer.report.outcome == "run-limit"
    assert logged.bodies == ["first"]


def test_many_records_arrive_in_order_in_few_batches(ask: Callable[..., Logged]) -> None:
    logged = ask("/many")
    assert logged.bodies == ["first", *(f"number {n}" for n in range(1000))]
    assert len(logged.requests) < 60


def test_streamed_response_sends_records_until_its_end(ask: Callable[..., Logged]) -> None:
    logged = ask("/stream")
    assert (logged.answer.body, logged.answer.report.outcome) == (b"onetwo", "ok")
    assert logged.bodies == ["first", "in the stream", "at its end"]


def test_records_and_fetches_are_sent_side_by_side(ask: Callable[..., Logged]) -> None:
    logged = ask("/beside")
    assert logged.answer.body == b"200,200,200"
    assert sorted(logged.bodies) == ["beside", "beside", "beside", "fetched", "fetched", "fetched", "first"]
