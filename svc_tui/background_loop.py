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


class OwnThread(Generic[T]):
    """A context that is entered on a thread as soon as this is made, and left by `end`.

    `given` is what it gives, or what it raised before; `over` is done once it was left, with what it raised.
    """

    def __init__(self, serve: Serve[T], name: str) -> None:
        self.given: Future[T] = Future()
        self.over: Future[None] = Future()
        self._serve = serve
        self._loop, self._stop = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Leave the context, and wait until that is done."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: it ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._until_stopped())
        except Exception as error:
            if not self.given.done():
                self.given.set_exception(error)
            self.over.set_exception(error)
        else:
            self.over.set_result(None)

    async def _until_stopped(self) -> None:
        async with self._serve(self._stop) as given:
            self.given.set_result(given)
            await self._stop.wait()


@contextlib.contextmanager
def on_thread(serve: Serve[T], name: str) -> Iterator[T]:
    """Enter a context on a thread of its own, and give what it gives; what it raises is raised here."""
    thread = OwnThread(serve, name)
    try:
        yield thread.given.result()
    finally:
        thread.end()
        thread.over.result()
