"""Follows the changes that other nodes of a fleet make in the bucket."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from engine.bucket.protocols import BucketError, VersionedValue
from engine.cancellation import spawn
from engine.errors import SvcError

RETRY_SECONDS = 2.0
REPORT_SECONDS = 600.0
"""Minimum time between two reports that changes cannot be followed."""
_log = logging.getLogger("svc.server")

Watch = Callable[[str, int], AsyncGenerator[tuple[str, VersionedValue | None], None]]
"""Yields the keys with a prefix that change after a revision, and their values, until the bucket closes."""


def follow(
    tasks: set[asyncio.Task[None]],
    watch: Watch,
    prefixes: Sequence[str],
    refresh: Callable[[str], Awaitable[None]],
) -> None:
    """Refresh projects whose keys change, until `tasks` are canceled. All with a key are refreshed at first.

    A key is a prefix and the name of a project. `tasks` gets the tasks that do it.
    """
    waiting: set[str] = set()
    reported = -math.inf

    async def follow_prefix(prefix: str) -> None:
        nonlocal reported
        after = 0
        while True:
            try:
                async for key, value in watch(prefix, after):
                    after = value.revision if value is not None else after
                    project = key.removeprefix(prefix)
                    if project not in waiting:
                        waiting.add(project)
                        spawn(tasks, refresh_project(project))
                return
            except BucketError as error:
                if time.monotonic() - reported > REPORT_SECONDS:
                    reported = time.monotonic()
                    _log.warning("changes of other nodes cannot be followed: %s; svc retries", error.message)
                await asyncio.sleep(RETRY_SECONDS)

    async def refresh_project(project: str) -> None:
        while True:
            waiting.discard(project)  # A change from now on needs another refresh.
            try:
                await refresh(project)
                return
            except BucketError:
                await asyncio.sleep(RETRY_SECONDS)
            except SvcError as error:
                _log.warning("%s, deployed on another node, is not served: %s", project, error.message)
                return
            except Exception:
                _log.exception("%s, deployed on another node, cannot be loaded", project)
                return

    for prefix in prefixes:
        spawn(tasks, follow_prefix(prefix))
