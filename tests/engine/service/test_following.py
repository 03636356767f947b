"""Following of changes that other nodes make."""

import asyncio
import logging
from collections.abc import AsyncGenerator

import pytest

from engine.bucket.protocols import BucketError, VersionedValue
from engine.cancellation import cancel
from engine.service import deployer


def test_outage_is_reported_once_and_changes_are_followed_after_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deployer, "RETRY_SECONDS", 0.0)
    caplog.set_level(logging.WARNING)
    failures = 5

    async def main() -> str:
        refreshed: asyncio.Queue[str] = asyncio.Queue()

        async def watch(prefix: str, after: int) -> AsyncGenerator[tuple[str, VersionedValue | None], None]:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise BucketError("no majority")
            yield f"{prefix}shop", None
            await asyncio.Event().wait()

        tasks: set[asyncio.Task[None]] = set()
        deployer.follow(tasks, watch, refreshed.put)
        project = await refreshed.get()
        await cancel(tasks)
        return project

    assert asyncio.run(main()) == "shop"
    assert [record.getMessage() for record in caplog.records] == [
        "changes of other nodes cannot be followed: no majority; svc retries"
    ]
