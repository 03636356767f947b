"""A Project's control API, wherever it is: that of its running `svc dev`, or one in this process.

Owns the choice, and the thread of the second.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from engine.control.listener import listening
from engine.control.presence import Presence, find
from engine.errors import SvcError
from engine.manifest.model import Project
from engine.usage.store import FOLDER
from svc_tui.client import Client
from svc_tui.control import of_project


@contextmanager
def client_of(project: Project) -> Iterator[Client]:
    """Give a client of the Project's control API: of `svc dev` when it runs, else of this process."""
    folder = project.root / FOLDER
    if (running := _running(folder)) is not None:
        with running:
            yield running
        return
    with _here(project, folder) as presence, Client(presence.url, presence.token) as client:
        yield client


def _running(folder: Path) -> Client | None:
    presence = find(folder)
    if presence is None:
        return None
    client = Client(presence.url, presence.token)
    try:
        client.call("GET", "/v1/projects")
    except SvcError:
        client.__exit__(None, None, None)
        return None
    return client


@contextmanager
def _here(project: Project, folder: Path) -> Iterator[Presence]:
    """Serve the API on a thread of this process."""
    ready: Future[Presence] = Future()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        try:
            async with listening(folder, of_project(project.name, folder), told=False) as presence:
                ready.set_result(presence)
                await stop.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), name="control", daemon=True)
    thread.start()
    try:
        yield ready.result()
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
