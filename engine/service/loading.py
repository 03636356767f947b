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


class LiveDeployments:
    """The live deployments of a service that starts, served and loaded at the same time."""

    def __init__(self, serve: Callable[[Live], Awaitable[None]], warn: Callable[[SvcError], None]) -> None:
        """`serve` serves a deployment, and returns when it can answer soon.

        `warn` is called for deployments that cannot be served, whatever the error.
        """
        self._serve, self._warn = serve, warn
        self.tasks: set[asyncio.Task[None]] = set()
        """The loads, also those that have ended."""

    async def start(self, all_live: Sequence[Live]) -> None:
        """Serve deployments. Returns when all are, or after `START_SECONDS`."""
        self.tasks = {asyncio.create_task(self._load(live)) for live in all_live}
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=START_SECONDS)

    async def _load(self, live: Live) -> None:
        try:
            await self._serve(live)
        except Exception as failure:
            error = failure if isinstance(failure, SvcError) else None
            if error is None:
                _log.exception("%s cannot be loaded", live.project)
                error = internal_error("its deployment cannot be loaded")
            self._warn(
                SvcError(f"{live.project} is not served: {error.message}", error.hint, code=error.code)
            )


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
