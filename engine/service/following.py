"""Follows the changes that other nodes of a fleet make in the bucket."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

from engine.bucket.errors import BucketError
from engine.bucket.protocols import VersionedValue
from engine.cancellation import cancel
from engine.errors import SvcError

RETRY_SECONDS = 2.0
REPORT_SECONDS = 600.0
"""Minimum time between two reports that changes cannot be followed."""
_log = logging.getLogger("svc.server")


class Watch(Protocol):
    """A function that yields changed keys and their values, as `StreamKeyValue.watch` does."""

    def __call__(self, prefix: str, after: int) -> AsyncGenerator[tuple[str, VersionedValue | None], None]:
        """Yield the keys with this prefix that change after a revision, until the bucket closes."""


class Follower:
    """Refreshes projects whose keys change. Use on one event loop."""

    def __init__(self, refresh: Callable[[str], Awaitable[None]], prefixes: Sequence[str]) -> None:
        """`refresh` serves the current state of a project. A key is a prefix and the name of a project."""
        self._refresh_project, self._prefixes = refresh, prefixes
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[str] = set()
        self._reported = -math.inf

    async def start(self, watch: Watch) -> None:
        """Follow changes until `aclose`. Each project with a key is refreshed once at first."""
        for prefix in self._prefixes:
            self._add(asyncio.create_task(self._watch(watch, prefix)))

    async def aclose(self) -> None:
        """Stop following."""
        await cancel(self._tasks)

    def _add(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, watch: Watch, prefix: str) -> None:
        after = 0
        while True:
            try:
                async for key, value in watch(prefix, after):
                    after = value.revision if value is not None else after
                    project = key.removeprefix(prefix)
                    if project not in self._waiting:
                        self._waiting.add(project)
                        self._add(asyncio.create_task(self._refresh(project)))
                return
            except BucketError as error:
                if time.monotonic() - self._reported > REPORT_SECONDS:
                    self._reported = time.monotonic()
                    _log.warning("changes of other nodes cannot be followed: %s; svc retries", error.message)
                await asyncio.sleep(RETRY_SECONDS)

    async def _refresh(self, project: str) -> None:
        while True:
            # A change from now on needs another refresh.
            self._waiting.discard(project)
            try:
                await self._refresh_project(project)
                return
            except BucketError:
                await asyncio.sleep(RETRY_SECONDS)
            except SvcError as error:
                _log.warning("%s, deployed on another node, is not served: %s", project, error.message)
                return
            except Exception:
                _log.exception("%s, deployed on another node, cannot be loaded", project)
                return
