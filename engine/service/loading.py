"""Loading of the live deployments when a service starts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from engine.deploy.deployment import Live
from engine.errors import SvcError, internal_error

START_SECONDS = 30.0
"""How long the start waits for deployments. Those that compile for longer are loaded while others serve."""
_log = logging.getLogger("svc.server")


class LiveDeployments:
    """The live deployments of a service that starts, loaded at the same time."""

    def __init__(
        self,
        serve: Callable[[Live], Awaitable[None]],
        defer: Callable[[Live, SvcError | None], Awaitable[None]],
        warn: Callable[[SvcError], None],
    ) -> None:
        """`serve` loads and serves a deployment.

        `defer` lets requests of one wait until it is served, or fail if it has an error. `warn` is called for
        deployments that cannot be served, whatever the error.
        """
        self._serve, self._defer, self._warn = serve, defer, warn
        self._deferred: set[str] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """The loads, also those that have ended."""

    async def start(self, all_live: Sequence[Live]) -> None:
        """Load deployments. Returns when all are served, or after `START_SECONDS`."""
        loads = {asyncio.create_task(self._load(live)): live for live in all_live}
        self.tasks = set(loads)
        if not loads:
            return
        _, late = await asyncio.wait(loads, timeout=START_SECONDS)
        for task in late:
            self._deferred.add(loads[task].project)
            await self._guard(loads[task], self._defer(loads[task], None))

    async def _load(self, live: Live) -> None:
        error = await self._guard(live, self._serve(live))
        if error is not None and live.project in self._deferred:
            await self._guard(live, self._defer(live, error))

    async def _guard(self, live: Live, step: Awaitable[None]) -> SvcError | None:
        """Await a step; report and return its error."""
        try:
            await step
        except Exception as failure:
            error = failure if isinstance(failure, SvcError) else None
            if error is None:
                _log.exception("%s cannot be loaded", live.project)
                error = internal_error("its deployment cannot be loaded")
            error = SvcError(f"{live.project} is not served: {error.message}", error.hint, code=error.code)
            self._warn(error)
            return error
        return None
