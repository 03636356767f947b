"""A server in a background thread, with an event loop of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

T = TypeVar("T")
Serve = Callable[[asyncio.Event], AbstractAsyncContextManager[T]]
"""Returns the context that serves. It may stop by itself once the event is set."""


class BackgroundLoop(Generic[T]):
    """An async context that is entered on a new thread at once and left by `stop`.

    `ready` holds the value of the context, or the error raised on entering. `finished` is done after the
    context was left, and holds its error.
    """

    def __init__(self, serve: Serve[T], name: str) -> None:
        self.ready: Future[T] = Future()
        self.finished: Future[None] = Future()
        self._serve = serve
        self._loop, self._stopping = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the context and wait until the thread has ended."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the context ended by itself
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._until_stopped())
        except (Exception, asyncio.CancelledError) as error:  # A stop cancels what starts.
            if not self.ready.done():
                self.ready.set_exception(error)
            self.finished.set_exception(error)
        else:
            self.finished.set_result(None)

    async def _until_stopped(self) -> None:
        async with self._serve(self._stopping) as value:
            self.ready.set_result(value)
            await self._stopping.wait()


@contextlib.contextmanager
def run_in_background(serve: Serve[T], name: str) -> Iterator[T]:
    """Enter an async context on a thread of its own and yield its value; its errors are raised here."""
    thread = BackgroundLoop(serve, name)
    try:
        yield thread.ready.result()
    finally:
        thread.stop()
        thread.finished.result()
