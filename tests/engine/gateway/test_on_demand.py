"""Versions that are loaded by their first request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from engine.errors import SvcError
from engine.gateway import on_demand
from engine.gateway.on_demand import LoadedVersions, OnDemand
from engine.gateway.routes import BuiltVersion

VERSION = cast(BuiltVersion, object())


class Loads:
    """Counts loads; each waits until it is released."""

    def __init__(self) -> None:
        self.first: list[bool] = []
        self.released = asyncio.Event()
        self.errors: list[Exception] = []
        self.running = self.most = 0

    async def create(self, first: bool) -> BuiltVersion:
        self.first.append(first)
        self.running += 1
        self.most = max(self.most, self.running)
        await self.released.wait()
        self.running -= 1
        if self.errors:
            raise self.errors.pop()
        return VERSION


def run(test: Callable[[Loads], Awaitable[Any]]) -> None:
    async def main() -> None:
        await test(Loads())

    asyncio.run(main())


def test_requests_at_once_share_one_load_even_if_one_is_canceled() -> None:
    async def scenario(loads: Loads) -> None:
        version = OnDemand("web", loads.create, LoadedVersions())
        waiting = [asyncio.create_task(version.wait()) for _ in range(100)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        loads.released.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError) and answers[1:] == [VERSION] * 99
        assert loads.first == [True] and version.begin() is VERSION

    run(scenario)


def test_unloaded_version_is_loaded_again_by_the_next_request() -> None:
    async def scenario(loads: Loads) -> None:
        loads.released.set()
        version = OnDemand("web", loads.create, LoadedVersions())
        await version.wait()
        version.unload()
        assert version.begin() is None
        assert await version.wait() is VERSION and loads.first == [True, False]

    run(scenario)


def test_least_recently_used_version_beyond_the_limit_is_unloaded() -> None:
    async def scenario(loads: Loads) -> None:
        loads.released.set()
        versions = LoadedVersions(limit=2)
        first, second, third = (OnDemand(str(number), loads.create, versions) for number in range(3))
        await first.wait()
        await second.wait()
        assert first.begin() is VERSION
        first.end()
        await third.wait()
        assert [bool(each.loaded) for each in (first, second, third)] == [True, False, True]

    run(scenario)


def test_burst_over_more_versions_than_the_limit_answers_all() -> None:
    async def scenario(loads: Loads) -> None:
        versions = LoadedVersions(limit=8, hard_limit=8)
        each = [OnDemand(str(number), loads.create, versions) for number in range(1000)]
        waiting = [asyncio.create_task(one.wait()) for one in each]
        await asyncio.sleep(0)
        loads.released.set()
        assert await asyncio.gather(*waiting) == [VERSION] * 1000
        assert sum(one.loaded is not None for one in each) == 8
        assert loads.most <= 8

    run(scenario)


def test_idle_version_is_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand, "IDLE_SECONDS", 0.02)

    async def scenario(loads: Loads) -> None:
        loads.released.set()
        version = OnDemand("web", loads.create, LoadedVersions())
        await version.wait()
        for _ in range(1000):
            if version.loaded is None:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("not unloaded")

    run(scenario)


def test_failure_is_repeated_for_some_seconds_and_then_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(loads: Loads) -> None:
        loads.released.set()
        version = OnDemand("resource web of shop", loads.create, LoadedVersions())
        loads.errors = [SvcError("the disk failed", "Check it.")] * 2
        for _ in range(3):
            with pytest.raises(SvcError, match="the disk failed"):
                await version.wait()
        assert loads.first == [True]
        monkeypatch.setattr(on_demand, "RETRY_SECONDS", 0.0)
        with pytest.raises(SvcError, match="the disk failed"):
            await version.wait()
        assert await version.wait() is VERSION and version.error is None
        assert loads.first == [True] * 3

    run(scenario)
    assert [record.message for record in caplog.records] == [
        "resource web of shop cannot be loaded: the disk failed\nCheck it."
    ]


def test_unexpected_error_is_logged_and_hidden(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(loads: Loads) -> None:
        loads.released.set()
        loads.errors = [ZeroDivisionError("secret")]
        with pytest.raises(SvcError, match=r"^web cannot be loaded$"):
            await OnDemand("web", loads.create, LoadedVersions()).wait()

    run(scenario)
    assert "ZeroDivisionError: secret" in caplog.text


def test_request_waits_for_a_limited_time_and_the_load_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand, "WAIT_SECONDS", 0.01)

    async def scenario(loads: Loads) -> None:
        version = OnDemand("web", loads.create, LoadedVersions())
        with pytest.raises(SvcError, match="web is being loaded"):
            await version.wait()
        monkeypatch.setattr(on_demand, "WAIT_SECONDS", 60)
        loads.released.set()
        assert await version.wait() is VERSION and loads.first == [True]

    run(scenario)


def test_versions_in_use_stay_loaded_and_loads_beyond_the_hard_limit_wait_for_their_requests() -> None:
    async def scenario(loads: Loads) -> None:
        loads.released.set()
        versions = LoadedVersions(limit=1, hard_limit=2)
        first, second, third = (OnDemand(str(number), loads.create, versions) for number in range(3))
        for each in (first, second):
            each.begin()
            await each.wait()
        assert first.loaded is second.loaded is VERSION
        waiting = asyncio.create_task(third.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        second.end()
        assert await waiting is VERSION
        assert second.loaded is None and first.loaded is VERSION
        first.end()

    run(scenario)
