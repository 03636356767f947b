"""Quotas of projects: requests at once, their memory and rate, and calls to other servers."""

import asyncio
import json
from pathlib import Path

import pytest

from engine.grant import Grant
from engine.http.exchange import Disconnected
from engine.quota import ActiveQuota, Quota, Quotas, RateLimit
from engine.timeline.record import PlatformRecord
from engine.wasm.execution import pool as pools
from engine.wasm.execution.config import MIB, PoolSettings
from engine.wasm.execution.memory_budget import MemoryBudget, MemoryProfile, RunMemory
from engine.wasm.execution.pool import ComponentUsage, Pool
from tests.engine.limits.hosted import Answer, Hosted, ask, held, hosted, until


def code(answer: Answer) -> str:
    return str(json.loads(answer.body)["code"])


def grants(site: Hosted) -> list[Grant]:
    """Return what the events of denials would allow."""
    events = (record for record in site.timeline if isinstance(record, PlatformRecord))
    return [event.grant for event in events if event.grant is not None]


def test_limit_is_reported_once_in_a_second() -> None:
    quota = ActiveQuota("shop", Quota(requests=1, egress=1), 1)
    assert quota.report("egress") == Grant("quota", "svc quota set shop --egress N")
    assert [quota.report("egress") for _ in range(5)] == [None] * 5
    assert quota.report("requests") is not None


def test_rate_limit_permits_a_burst_of_one_second_and_then_its_rate() -> None:
    now = [0.0]
    limit = RateLimit(10, lambda: now[0])
    assert [limit.allow() for _ in range(11)] == [True] * 10 + [False]
    now[0] = 0.1
    assert [limit.allow() for _ in range(2)] == [True, False]
    now[0] = 60.0
    assert sum(limit.allow() for _ in range(100)) == 10


def test_processes_share_limits_rounded_up() -> None:
    quota = Quota(instances=10, memory_mb=100, requests=1, storage_mb=50)
    assert quota.share(4) == Quota(instances=3, memory_mb=25, requests=1, storage_mb=50)
    assert quota.share(1) == quota


def test_unchanged_quota_preserves_its_rate() -> None:
    quotas = Quotas()
    quotas.set("shop", Quota(requests=1))
    active = quotas.active["shop"]
    quotas.set("shop", Quota(requests=1))
    assert quotas.active["shop"] is active
    quotas.set("shop", Quota())
    assert quotas.active == {}


def test_requests_beyond_the_instances_of_a_quota_wait(cache: Path) -> None:
    async def test(site: Hosted) -> tuple[list[Answer], int]:
        most = 0
        requests = asyncio.gather(*[ask("1.1", site.port, "/s200") for _ in range(6)])
        while not requests.done():
            most = max(most, len(site.runner.runs))
            await asyncio.sleep(0.01)
        return requests.result(), most

    answers, most = hosted(cache, test, quota=Quota(instances=2))
    assert [answer.status for answer in answers] == [200] * 6
    assert most == 2


@pytest.mark.parametrize(
    ("quota", "limit"),
    [
        (Quota(instances=1), "1 requests at once; an owner of the service can change it: svc quota set shop"),
        (Quota(memory_mb=20), "20 MiB of memory for its requests; an owner of the service can change it"),
    ],
    ids=["instances", "memory"],
)
def test_request_that_waits_too_long_for_its_quota_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch, quota: Quota, limit: str
) -> None:
    monkeypatch.setattr(pools, "MEMORY_WAIT_SECONDS", 0.1)

    async def test(site: Hosted) -> tuple[Answer, Answer, str, list[Grant]]:
        release = asyncio.Event()
        first = asyncio.create_task(ask("1.1", site.port, "/e", held(release)))
        await until(lambda: bool(site.runner.runs))
        refused = await ask("1.1", site.port, "/h")
        detail = (await site.recorded()).detail
        release.set()
        return await first, refused, detail, grants(site)

    first, refused, detail, (grant,) = hosted(cache, test, quota=quota, memory_limit_mb=16)
    assert (first.status, refused.status, code(refused)) == (200, 429, "quota-exceeded")
    assert refused.headers[b"retry-after"] == b"1"
    assert b"requests" not in refused.body and b"MiB" not in refused.body  # Callers see no limits.
    assert limit in detail and grant.line in detail


def test_requests_beyond_the_rate_of_a_quota_are_refused(cache: Path) -> None:
    async def test(site: Hosted) -> tuple[list[Answer], str, list[Grant]]:
        answers = [await ask("1.1", site.port, "/h")]
        while answers[-1].status == 200 and len(answers) < 1000:  # A slow machine may not reach the rate.
            answers.append(await ask("1.1", site.port, "/h"))
        return answers, site.records[-1].detail, grants(site)

    answers, detail, found = hosted(cache, test, quota=Quota(requests=3))
    assert found[0] == Grant("quota", "svc quota set shop --requests N")
    assert len(answers) > 3
    assert code(answers[-1]) == "quota-exceeded"
    assert "its quota of 3 requests a second" in detail and "svc quota set shop --requests N" in detail


def test_project_that_waits_for_its_quota_does_not_delay_others() -> None:
    async def main() -> None:
        quotas = Quotas()
        quotas.set("small", Quota(instances=1))
        budget = MemoryBudget(1000 * MIB, lambda: 0)
        pool = Pool(PoolSettings(instances=9, warm=0), 64, budget, quotas)

        def acquire(project: str) -> "asyncio.Task[int | None]":
            memory = RunMemory(MemoryProfile(MIB))
            return asyncio.create_task(pool.acquire(project, ComponentUsage(), memory, Disconnected()))

        def take(project: str) -> RunMemory | None:
            memory = RunMemory(MemoryProfile(MIB))
            kind = pool.try_acquire(project, ComponentUsage(), memory)
            return None if kind is None else memory

        first = take("small")
        assert first is not None and take("small") is None
        waiting = acquire("small")
        await asyncio.sleep(0)
        others = [take("other") for _ in range(7)]
        assert None not in others  # It passes the project that waits.
        pool.release(0, "small", first)
        assert await asyncio.wait_for(waiting, 60) == 0

    asyncio.run(main())


def test_run_alone_begins_whatever_its_memory() -> None:
    quota = ActiveQuota("shop", Quota(memory_mb=10), 1)
    assert quota.admits(0, 0, 100 * MIB)
    assert not quota.admits(1, 5 * MIB, 6 * MIB)
    assert quota.admits(1, 5 * MIB, 5 * MIB)
