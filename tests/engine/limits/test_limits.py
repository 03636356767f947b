"""Each limit: its status and code, its record, and its delay."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.timeline.record import LineRecord, RequestRecord
from engine.wasm.execution.config import MIB, PoolSettings
from tests.engine.limits.hosted import Answer, Hosted, ask, connected, held, hosted, until

pytestmark = pytest.mark.slow
both = pytest.mark.parametrize("version", ["1.1", "2"])
LATE = 30_000_000_000
"""How long after its limit a run may end on a busy machine, ns. Without the limit, each takes longer."""


async def drops() -> AsyncIterator[bytes]:
    """Yield an endless slow upload."""
    while True:
        yield b"drop"
        await asyncio.sleep(0.02)


async def flood() -> AsyncIterator[bytes]:
    """Yield an endless upload without pauses."""
    while True:
        yield bytes(16_000)


def code(answer: Answer) -> Any:
    return json.loads(answer.body)["code"]


def within(record: RequestRecord, seconds: int) -> bool:
    return seconds * 10**9 <= record.wall_ns < seconds * 10**9 + LATE


def test_successful_run_returns_complete_response(cache: Path) -> None:
    async def test(site: Hosted) -> None:
        for version in ("1.1", "2"):
            answer = await ask(version, site.port, "/h")
            assert (answer.status, bytes(answer.body), answer.complete) == (200, b"hello\n", True)

    hosted(cache, test)


@both
@pytest.mark.parametrize("path", ["/l", "/c", "/s100000", "/u4096"], ids=["loop", "calls", "wait", "upload"])
def test_run_limit_before_head_returns_504(cache: Path, version: str, path: str) -> None:
    """The guest computes, calls its host, waits, or reads an endless upload."""

    async def test(site: Hosted) -> tuple[Answer, RequestRecord]:
        answer = await ask(version, site.port, path, drops() if path.startswith("/u") else None)
        return answer, await site.recorded()

    answer, record = hosted(cache, test, run_limit_secs=1)
    assert (answer.status, code(answer), answer.complete) == (504, "run-limit", True)
    assert (record.status, record.code) == (504, "run-limit") and within(record, 1)


@both
@pytest.mark.parametrize("path", ["/L", "/k10", "/e"], ids=["loop", "stream", "echo"])
def test_run_limit_after_head_truncates_response(cache: Path, version: str, path: str) -> None:
    async def test(site: Hosted) -> tuple[Answer, RequestRecord]:
        answer = await ask(version, site.port, path, drops() if path == "/e" else None)
        return answer, await site.recorded()

    answer, record = hosted(cache, test, run_limit_secs=1)
    assert answer.status == 200 and answer.body and not answer.complete
    assert (record.status, record.code) == (200, "run-limit") and within(record, 1)


@both
def test_run_limit_ends_run_waiting_for_slow_client(cache: Path, version: str) -> None:
    async def test(site: Hosted) -> RequestRecord:
        async with connected(version, site.port) as client:
            await client.send("/w1000000")
            return await site.recorded()

    record = hosted(cache, test, run_limit_secs=1)
    assert record.code == "run-limit" and within(record, 1)
    assert record.bytes_out < 16 << 20


@both
def test_body_above_limit_before_head_returns_413(cache: Path, version: str) -> None:
    async def test(site: Hosted) -> tuple[Answer, RequestRecord, Answer]:
        answer = await ask(version, site.port, "/u4096", flood())
        return answer, await site.recorded(), await ask(version, site.port, "/h")

    answer, record, after = hosted(cache, test, max_body=100_000)
    assert (answer.status, code(answer)) == (413, "body-too-large")
    assert record.code == "body-too-large" and record.bytes_in > 100_000
    assert bytes(after.body) == b"hello\n"


@both
def test_body_above_limit_after_head_truncates_response(cache: Path, version: str) -> None:
    async def test(site: Hosted) -> tuple[Answer, RequestRecord]:
        return await ask(version, site.port, "/e", flood()), await site.recorded()

    # A client of HTTP/1.1 sends more than the smaller limit before the guest has responded.
    max_body = 1_000_000 if version == "1.1" else 100_000
    answer, record = hosted(cache, test, max_body=max_body)
    assert (answer.status, answer.complete) == (200, False)
    assert (record.status, record.code) == (200, "body-too-large")


@both
def test_request_above_queue_returns_503(cache: Path, version: str) -> None:
    async def test(site: Hosted) -> list[Answer]:
        release, rejected = asyncio.Event(), list[Answer]()

        async def one() -> Answer:
            answer = await ask(version, site.port, "/e", held(release))
            if answer.status == 503:
                rejected.append(answer)
                if len(rejected) == 2:
                    release.set()
            return answer

        return await asyncio.gather(*[one() for _ in range(8)])

    answers = hosted(cache, test, pool=PoolSettings(instances=2), queue=4)
    rejected = [answer for answer in answers if answer.status == 503]
    assert len(rejected) == 2 and {code(answer) for answer in rejected} == {"overloaded"}
    assert {answer.headers[b"retry-after"] for answer in rejected} == {b"1"}
    assert [bytes(answer.body) for answer in answers if answer.status == 200] == [b"hello\n"] * 6


@both
@pytest.mark.parametrize("path", ["/t", "/x"], ids=["trap", "exit"])
def test_guest_failure_returns_500(cache: Path, version: str, path: str) -> None:
    async def test(site: Hosted) -> tuple[Answer, RequestRecord, Answer]:
        answer = await ask(version, site.port, path)
        return answer, await site.recorded(), await ask(version, site.port, "/h")

    answer, record, after = hosted(cache, test)
    assert (answer.status, code(answer), record.code) == (500, "guest-failed", "guest-failed")
    assert bytes(after.body) == b"hello\n"


@pytest.mark.parametrize("limit", [16, 64])
def test_memory_limit_covers_all_memories_together(cache: Path, limit: int) -> None:
    async def test(site: Hosted) -> int:
        answer = await ask("1.1", site.port, "/m")
        return int.from_bytes(answer.body, "little") * 65536

    assert limit * MIB * 0.75 < hosted(cache, test, memory_limit_mb=limit) <= limit * MIB


@both
@pytest.mark.parametrize(("path", "status"), [("/o", 500), ("/O", 200)], ids=["before", "after"])
def test_guest_above_memory_limit_is_ended(cache: Path, version: str, path: str, status: int) -> None:
    async def test(site: Hosted) -> tuple[Answer, RequestRecord, Answer]:
        answer = await ask(version, site.port, path)
        return answer, await site.recorded(), await ask(version, site.port, "/h")

    answer, record, after = hosted(cache, test, memory_limit_mb=16)
    assert (answer.status, answer.complete) == (status, status == 500)
    assert code(answer) == "memory-limit" if status == 500 else bytes(answer.body) == b"hello\n"
    assert (record.status, record.code) == (status, "memory-limit") and "memory_limit_mb" in record.detail
    assert bytes(after.body) == b"hello\n"


def test_excess_lines_are_truncated(cache: Path) -> None:
    async def test(site: Hosted) -> tuple[Answer, list[str]]:
        answer = await ask("1.1", site.port, "/p100")
        lines = [record.text for record in site.timeline if isinstance(record, LineRecord)]
        return answer, lines

    answer, lines = hosted(cache, test)
    assert bytes(answer.body) == b"hello\n"
    assert len(lines) <= 10_001 and "truncated" in lines[-1]


def test_handles_of_run_are_limited(cache: Path) -> None:
    async def test(site: Hosted) -> tuple[Answer, RequestRecord]:
        return await ask("1.1", site.port, "/f"), await site.recorded()

    answer, record = hosted(cache, test, run_limit_secs=30)
    assert (answer.status, record.code) == (500, "guest-failed")
    assert "it holds more" in record.detail


@both
@pytest.mark.parametrize(
    "path",
    ["/l", "/L", "/a", "/c", "/k10", "/w1000000", "/s100000"],
    ids=["loop", "late-loop", "fields", "calls", "ticks", "data", "wait"],
)
def test_client_disconnect_ends_run(cache: Path, version: str, path: str) -> None:
    async def test(site: Hosted) -> tuple[RequestRecord, float]:
        loop = asyncio.get_running_loop()
        async with connected(version, site.port) as client:
            await client.send(path)
            await until(lambda: bool(site.runner.runs))
            await asyncio.sleep(0.2)
        disconnected_at = loop.time()
        return await site.recorded(), loop.time() - disconnected_at

    record, elapsed = hosted(cache, test, run_limit_secs=30)
    assert record.code == "client-gone"
    assert elapsed < 20


@both
@pytest.mark.parametrize("path", ["/s100000", "/l"], ids=["wait", "loop"])
def test_client_disconnect_during_unread_upload_ends_run(cache: Path, version: str, path: str) -> None:
    async def test(site: Hosted) -> tuple[RequestRecord, float]:
        loop = asyncio.get_running_loop()
        async with connected(version, site.port) as client:
            upload = await client.send(path, flood())
            await asyncio.sleep(0.5)
            assert upload is not None
            upload.cancel()
            client.reset()
        disconnected_at = loop.time()
        return await site.recorded(), loop.time() - disconnected_at

    record, elapsed = hosted(cache, test, run_limit_secs=30, max_body=1 << 30)
    assert record.code == "client-gone"
    assert elapsed < 20
