"""Serving of the live deployments when a service starts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from engine.deploy.deployment import Live
from engine.errors import SvcError, internal_error

START_SECONDS = 30.0
"""How long the start waits for deployments. Those that compile for longer are loaded while others serve."""
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
