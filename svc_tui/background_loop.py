"""What serves, on a thread of this process with an event loop of its own.

Owns when it begins and ends; knows nothing of what it serves.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

T = TypeVar("T")
Serve = Callable[[asyncio.Event], AbstractAsyncContextManager[T]]
"""Makes the context that serves; it may end by itself once the event is set, and is left then."""


class BackgroundLoop(Generic[T]):
    """A context that is entered on a thread as soon as this is made, and left by `end`.

    `given` is what it gives, or what it raised before; `over` is done once it was left, with what it raised.
    """

    def __init__(self, serve: Serve[T], name: str) -> None:
        self.ready: Future[T] = Future()
        self.finished: Future[None] = Future()
        self._serve = serve
        self._loop, self._stopping = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the context, and wait until that is done."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: it ended by itself
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._until_stopped())
        except Exception as error:
            if not self.ready.done():
                self.ready.set_exception(error)
            self.finished.set_exception(error)
        else:
            self.finished.set_result(None)

    async def _until_stopped(self) -> None:
        async with self._serve(self._stopping) as given:
            self.ready.set_result(given)
            await self._stopping.wait()


@contextlib.contextmanager
def run_in_background(serve: Serve[T], name: str) -> Iterator[T]:
    """Enter a context on a thread of its own, and give what it gives; what it raises is raised here."""
    thread = BackgroundLoop(serve, name)
    try:
        yield thread.ready.result()
    finally:
        thread.stop()
        thread.finished.result()
