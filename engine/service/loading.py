"""Serving of the live deployments when a service starts, and of those that other nodes activate."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from engine.bucket.protocols import BucketError, VersionedValue
from engine.cancellation import spawn
from engine.deploy.deployment import Live
from engine.errors import SvcError, internal_error

START_SECONDS = 30.0
"""How long the start waits for deployments. Those that compile for longer are loaded while others serve."""
RETRY_SECONDS = 2.0
REPORT_SECONDS = 600.0
"""Minimum time between two reports that changes cannot be followed."""
_log = logging.getLogger("svc.server")


async def load_all(
    tasks: set[asyncio.Task[None]],
    all_live: Sequence[Live],
    serve: Callable[[Live], Awaitable[None]],
    warn: Callable[[SvcError], None],
) -> None:
    """Serve deployments at the same time. Returns when all are served, or after `START_SECONDS`.

    `serve` returns when a deployment can answer soon. `warn` is called for those that cannot be served,
    whatever the error. `tasks` gets the tasks that do it, until they end.
    """

    async def load(live: Live) -> None:
        try:
            await serve(live)
        except Exception as failure:
            error = failure if isinstance(failure, SvcError) else None
            if error is None:
                _log.exception("%s cannot be loaded", live.project)
                error = internal_error("its deployment cannot be loaded")
            warn(SvcError(f"{live.project} is not served: {error.message}", error.hint, code=error.code))

    if loads := [spawn(tasks, load(live)) for live in all_live]:
        await asyncio.wait(loads, timeout=START_SECONDS)


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
