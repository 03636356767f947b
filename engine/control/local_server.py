"""The control API of one Project on this machine: its socket, its token, and where it is found."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from quart import Blueprint

from engine.control.access import StaticToken
from engine.control.app import create_app
from engine.control.discovery import Endpoint, publish_endpoint, remove_endpoint
from engine.http.server import serve
from engine.http.sockets import bind

GRACE_SECONDS = 1.0


@asynccontextmanager
async def serve_local(
    folder: Path, blueprints: Iterable[Blueprint], *, announce: bool
) -> AsyncIterator[Endpoint]:
    """Serve the control API on a free loopback port for as long as the context lasts.

    `announce` publishes it in the Project's `.svc` folder, for other processes to find. Raises `SvcError`
    when there is no port or the folder can not be written.
    """
    sockets = bind("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    presence = Endpoint(f"http://127.0.0.1:{port}", secrets.token_urlsafe(32), os.getpid())
    stop = asyncio.Event()
    app = create_app(StaticToken(presence.token), blueprints)
    serving = asyncio.create_task(serve(app, sockets, stop=stop, grace=GRACE_SECONDS))
    try:
        if announce:
            publish_endpoint(folder, presence)
        yield presence
    finally:
        if announce:
            remove_endpoint(folder, presence)
        stop.set()
        await serving
