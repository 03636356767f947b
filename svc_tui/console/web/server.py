"""Web server of the Console: page, WebSocket, and one Console process per page.

The page uses the script of textual-serve and loads nothing from other origins.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler

from svc_tui.console.web.auth import BrowserAuth
from svc_tui.console.web.session import BrowserSession

MAX_SESSIONS = 16
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Maximum size of one WebSocket message. A paste arrives in one message."""
MAX_TERMINAL_CELLS = 1000
HEARTBEAT_SECONDS = 15.0
SHUTDOWN_SECONDS = 2.0
"""Time for responses in progress at shutdown."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self'; connect-src 'self' ws: wss:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_FORBIDDEN = (
    "The Console requires its key.\n\n"
    "Open the address that `svc console --web` printed last; each address works once.\n"
)


class Page:
    """The routes of the web server and the sessions behind them."""

    def __init__(self, access: BrowserAuth, command: Sequence[str], title: str, port: int) -> None:
        """Create the page. Each browser session runs `command`."""
        self._access = access
        self._command = command
        # Cookies are shared between ports: another Console on this host has its own cookie.
        self._cookie = f"svc-console-{port}"
        self._sessions: set[BrowserSession] = set()
        self._detached: list[BrowserSession] = []
        self._document = files("svc_tui.console.web").joinpath("page.html").read_text("utf-8")
        self._title = title

    @property
    def pending(self) -> int:
        """The number of edits that would be lost by closing all sessions."""
        return sum(session.pending for session in self._sessions)

    def application(self) -> web.Application:
        """Return the aiohttp application. Every route requires the key or a cookie."""
        application = web.Application(middlewares=[self._guard])
        application.router.add_get("/", self._index)
        application.router.add_get("/ws", self._socket)
        application.router.add_static("/static", Path(f"{files('textual_serve')}/static"))
        return application

    async def close(self) -> None:
        """Close every session."""
        sessions, self._detached = list(self._sessions), []
        await asyncio.gather(*(session.close() for session in sessions))

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._access.is_allowed_host(request.host):
            answer: web.StreamResponse = web.Response(
                status=421, text="This server does not serve that host name.\n"
            )
        elif (key := request.query.get("key")) is not None and request.path == "/":
            answer = self._sign_in(key)
        elif not self._access.is_valid_cookie(request.cookies.get(self._cookie, "")):
            answer = web.Response(status=403, text=_FORBIDDEN)
        else:
            try:
                answer = await handler(request)
            except web.HTTPException as error:
                answer = web.Response(status=error.status, text=f"{error.reason}\n")
        if not answer.prepared:
            answer.headers.update(_HEADERS)
        return answer

    def _sign_in(self, key: str) -> web.Response:
        cookie = self._access.exchange_key(key)
        if cookie is None:
            return web.Response(status=403, text=_FORBIDDEN)
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(
            self._cookie, cookie, httponly=True, samesite="Strict", secure=self._access.secure, path="/"
        )
        return answer

    async def _index(self, request: web.Request) -> web.Response:
        socket_url = escape(self._access.socket_url(request.host))
        page = self._document.replace("{title}", escape(self._title)).replace("{socket}", socket_url)
        return web.Response(text=page, content_type="text/html")

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if not self._access.is_same_origin(request.headers.get("Origin", ""), request.host):
            return web.Response(status=403, text="Only the Console's own page may open this connection.\n")
        if len(self._sessions) >= MAX_SESSIONS and not self._detached:
            return web.Response(status=503, text="The Console is open in too many pages.\n")
        connection = web.WebSocketResponse(
            heartbeat=HEARTBEAT_SECONDS, timeout=SHUTDOWN_SECONDS, max_msg_size=MAX_MESSAGE_BYTES
        )
        await connection.prepare(request)
        session = await self._acquire_session()
        try:
            await session.attach(connection, *_terminal_size(request.query))
            async for message in connection:
                if message.type == WSMsgType.TEXT:
                    await _forward(message.json(), session, connection)
        finally:
            session.detach()
            if session.pending:
                self._detached.append(session)
            else:
                await self._close_session(session)
        return connection

    async def _acquire_session(self) -> BrowserSession:
        """Return the last detached session with pending edits, or a new one."""
        while self._detached:
            detached = self._detached.pop()
            if detached.pending:
                return detached
            await self._close_session(detached)  # Its process has exited.
        session = BrowserSession(self._command)
        self._sessions.add(session)
        return session

    async def _close_session(self, session: BrowserSession) -> None:
        await session.close()
        self._sessions.discard(session)


async def _forward(envelope: list[Any], session: BrowserSession, connection: web.WebSocketResponse) -> None:
    match envelope:
        case ["stdin", str(text)]:
            await session.send_bytes(text.encode("utf-8", "replace"))
        case ["resize", {"width": int(), "height": int()} as size]:
            await session.set_terminal_size(*_terminal_size(size))
        case ["ping", moment]:
            await connection.send_json(["pong", moment])
        case ["blur"]:
            await session.blur()
        case ["focus"]:
            await session.focus()


def _terminal_size(size: Any) -> tuple[int, int]:
    """Return width and height in cells, limited to valid values."""
    try:
        width, height = int(size.get("width", 80)), int(size.get("height", 24))
    except ValueError:
        return 80, 24
    return min(max(width, 1), MAX_TERMINAL_CELLS), min(max(height, 1), MAX_TERMINAL_CELLS)


@asynccontextmanager
async def serving(page: Page, sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """Serve the page on bound sockets; close every session on exit."""
    runner = web.AppRunner(
        page.application(), handle_signals=False, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        for sock in sockets:
            await web.SockSite(runner, sock).start()
        yield
    finally:
        await page.close()
        await runner.cleanup()
