"""Versions that are loaded by their first request, and unloaded after some time without one."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from engine.eager import in_task
from engine.errors import SvcError, internal_error
from engine.files.reserve import share_of_files

if TYPE_CHECKING:
    from engine.gateway.routes import BuiltVersion

IDLE_SECONDS = 300.0
"""A version without a request for this time, or up to twice of it, is unloaded."""
MAX_LOADED = 256
"""Number of loaded versions above which unused ones are unloaded."""
FILES = 3
"""Open files of a loaded component: its memory, and its machine code twice."""
WAIT_SECONDS = 30.0
"""How long a request waits until its version is loaded."""
RETRY_SECONDS = 5.0
"""Requests get the error of a version that could not be loaded for this time, until it is tried again."""
_log = logging.getLogger("svc.server")


class LoadedVersions:
    """The loaded versions of a process. Use on one event loop."""

    def __init__(self, limit: int | None = None, hard_limit: int | None = None) -> None:
        """Unload unused versions beyond `limit`. Loads beyond `hard_limit` wait for the end of requests.

        The latter is by default a share of the open files.
        """
        self._hard_limit = hard_limit or share_of_files(FILES)
        self._limit = min(limit or MAX_LOADED, self._hard_limit)
        self._loaded: set[OnDemand] = set()
        """With those that are being loaded."""
        self.freed = asyncio.Event()
        """Wakes the loads that wait in `make_room`."""
        self._timer: asyncio.TimerHandle | None = None

    async def make_room(self, version: "OnDemand") -> None:
        """Wait until another version may be loaded, and add it. Unload unused ones for that."""
        while len(self._loaded) >= self._limit:
            if unused := [each for each in self._loaded if each.loaded and not each.requests]:
                min(unused, key=lambda each: each.last_used).unload()
            elif len(self._loaded) < self._hard_limit:
                break
            else:
                self.freed.clear()
                await self.freed.wait()
        self._loaded.add(version)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._unload_idle)

    def remove(self, version: "OnDemand") -> None:
        """Remove a version that is not loaded any more."""
        self._loaded.discard(version)
        self.freed.set()

    def _unload_idle(self) -> None:
        before = time.monotonic() - IDLE_SECONDS
        for each in [each for each in self._loaded if each.last_used < before]:
            if each.loaded and not each.requests:
                each.unload()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(IDLE_SECONDS, self._unload_idle) if self._loaded else None


class OnDemand:
    """A version that is loaded when it is needed. Requests in progress continue on an unloaded one."""

    def __init__(
        self, name: str, create: Callable[[bool], "Awaitable[BuiltVersion]"], versions: LoadedVersions
    ) -> None:
        """`create` gets whether this is the first time. `name` is for the log."""
        self._name, self._create, self._versions = name, create, versions
        self._loading: asyncio.Task[BuiltVersion] | None = None
        self._failed_at = 0.0
        self._first, self._reported = True, False
        self.loaded: BuiltVersion | None = None
        self.requests = 0
        """Requests in progress."""
        self.last_used = 0.0
        """Time of the beginning of the last request, or of the load (monotonic)."""
        self.error: SvcError | None = None
        """Why it could not be loaded the last time."""

    def begin(self) -> "BuiltVersion | None":
        """Begin a request; return the version, `None` if it is not loaded."""
        self.requests += 1
        self.last_used = time.monotonic()
        return self.loaded

    def end(self) -> None:
        """End a request that `begin` began."""
        self.requests -= 1
        if not self.requests:
            self._versions.freed.set()

    async def wait(self) -> "BuiltVersion":
        """Load the version for a request, and return it. Raises `SvcError`, also after `WAIT_SECONDS`."""
        if self.error is not None and time.monotonic() < self._failed_at + RETRY_SECONDS:
            raise self.error
        await in_task()
        try:
            return await asyncio.wait_for(self.load(), WAIT_SECONDS)
        except TimeoutError:
            raise SvcError(f"{self._name} is being loaded", "Try again.") from None
        except SvcError as error:
            if not self._reported:
                _log.warning("%s cannot be loaded: %s", self._name, error.text)
            self._reported = True
            raise

    async def load(self) -> "BuiltVersion":
        """Load the version, unless it is, and return it. Raises `SvcError`."""
        if self.loaded is not None:
            return self.loaded
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._loading)

    async def _load(self) -> "BuiltVersion":
        try:
            await self._versions.make_room(self)
            self.loaded = await self._create(self._first)
        except Exception as failure:
            self._failed_at = time.monotonic()
            self._versions.remove(self)
            if isinstance(failure, SvcError):
                self.error = failure
                raise
            _log.exception("%s cannot be loaded", self._name)
            self.error = internal_error(f"{self._name} cannot be loaded")
            raise self.error from failure
        finally:
            self._loading = None
        self._first, self._reported, self.error = False, False, None
        self.last_used = time.monotonic()
        return self.loaded

    def unload(self) -> None:
        """Free what the version holds, once its requests have ended."""
        self.loaded = None
        self._versions.remove(self)
