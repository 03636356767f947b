"""The application of the control API over its real listener, on the event loop of the caller."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quart import Quart

from engine.http.asgi import asgi_handler
from engine.http.server import serve
from engine.http.sockets import bind


@asynccontextmanager
async def served(app: Quart, stop: asyncio.Event) -> AsyncIterator[str]:
    """Serve the application until the context exits, which sets `stop`; yield its address."""
    sockets = bind("127.0.0.1", 0)
    serving = asyncio.create_task(serve(asgi_handler(app), sockets, stop=stop, grace=1))
    yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    await serving
