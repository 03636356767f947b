"""Control APIs on this machine: one that announced itself in a folder, one on a thread of this process."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from engine.control.presence import find
from engine.errors import SvcError
from svc_tui.client import Client

T = TypeVar("T")


def announced(folder: Path, path: str) -> Client | None:
    """Return a client of the control API that announced itself in a folder, if it answers at a path."""
    presence = find(folder)
    if presence is None:
        return None
    client = Client(presence.url, presence.token)
    try:
        client.call("GET", path)
    except SvcError:
        client.close()
        return None
    return client


@contextmanager
def on_thread(serve: Callable[[asyncio.Event], AbstractAsyncContextManager[T]], name: str) -> Iterator[T]:
    """Enter a context that serves, on an event loop of its own, and give what it gives.

    It is left when `serve`'s event is set, and what it raises before it serves is raised here.
    """
    ready: Future[T] = Future()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        try:
            async with serve(stop) as given:
                ready.set_result(given)
                await stop.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), name=name, daemon=True)
    thread.start()
    try:
        yield ready.result()
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
