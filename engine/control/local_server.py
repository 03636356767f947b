"""The control API of one project on a loopback port."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from quart import Blueprint

from engine.control.access import StaticToken
from engine.control.app import create_app
from engine.control.discovery import ControlEndpoint, find_endpoint, publish_endpoint, remove_endpoint
from engine.errors import SvcError
from engine.http.asgi import asgi_handler
from engine.http.server import serve
from engine.http.sockets import bind

GRACE_SECONDS = 1.0
REPUBLISH_SECONDS = 1.0


@asynccontextmanager
async def serve_local(
    folder: Path, blueprints: Iterable[Blueprint], *, announce: bool
) -> AsyncIterator[ControlEndpoint]:
    """Serve the control API on a free loopback port while the context is open.

    `announce` writes the discovery file to the project's `.svc` folder. Raises `SvcError` if no port is free
    or the folder cannot be written.
    """
    sockets = bind("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    endpoint = ControlEndpoint(f"http://127.0.0.1:{port}", secrets.token_urlsafe(32), os.getpid())
    stop = asyncio.Event()
    app = create_app(StaticToken(endpoint.token), blueprints)
    serving = asyncio.create_task(serve(asgi_handler(app), sockets, stop=stop, grace=GRACE_SECONDS))
    republishing = None
    try:
        if announce:
            publish_endpoint(folder, endpoint)
            republishing = asyncio.create_task(_republish(folder, endpoint))
        yield endpoint
    finally:
        if republishing is not None:
            republishing.cancel()
            remove_endpoint(folder, endpoint)
        stop.set()
        await serving


async def _republish(folder: Path, endpoint: ControlEndpoint) -> None:
    """Write the discovery file again after another process of this project has replaced it and ended."""
    while True:
        await asyncio.sleep(REPUBLISH_SECONDS)
        published = find_endpoint(folder)
        # A project folder that was moved is not created again.
        if (published is None or not published.is_running) and folder.is_dir():
            with contextlib.suppress(SvcError):
                publish_endpoint(folder, endpoint)
