"""`svc console --web`: runs the web server and the engine behind it until a signal arrives.

Browsers authenticate by one-time keys and session cookies; the Host and Origin headers are checked.
"""

import asyncio
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from quart import Quart, Response, request

from engine.errors import InvalidUsage, SvcError
from engine.gateway.routes import host_name
from engine.http.asgi import asgi_handler
from engine.http.connection_limits import parse_ip
from engine.http.server import serve
from engine.http.sockets import PortInUse, authority, bind
from svc_tui.client.credentials import check_encryption, is_loopback, service_url
from svc_tui.console.engine import EngineConnection, Severity
from svc_tui.console.web.pages import Pages, Visitor, create_app, page_routes
from svc_tui.console.web.session import Launch
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.signals import on_stop

KEY_BYTES = 24
MAX_BROWSERS = 64
"""Maximum number of valid cookies; the oldest is dropped first."""


class BrowserAuth:
    """Authenticates browsers for the lifetime of one `svc console --web`."""

    def __init__(self, host: str, public: str, on_key: Callable[[str], None]) -> None:
        """Create the first key. `host` is the listening address, `public` the URL at a reverse proxy or "".

        `on_key` receives each new key. A key admits one browser; the next key is created then.
        """
        self._names = frozenset(("localhost", host.lower(), urlsplit(public).hostname)) - {None, ""}
        self.public = public
        self._on_key = on_key
        self.cookies: list[str] = []
        self._key = ""
        self._issue_key()

    def exchange_key(self, key: str) -> str | None:
        """Return a new cookie in exchange for a key, or None for a wrong key. A key works once."""
        if not _equal(key, self._key):
            return None
        self.cookies = [*self.cookies, secrets.token_urlsafe(KEY_BYTES)][-MAX_BROWSERS:]
        self._issue_key()
        return self.cookies[-1]

    def is_allowed_host(self, host: str) -> bool:
        """Return whether a Host header names this server.

        Any IP address is allowed: DNS rebinding can point names here, but not addresses.
        """
        name = host_name(host)
        return name in self._names or parse_ip(name) is not None

    def _issue_key(self) -> None:
        self._key = secrets.token_urlsafe(KEY_BYTES)
        self._on_key(self._key)


def _equal(received: str, secret: str) -> bool:
    """Compare in constant time. Headers with invalid UTF-8 are received as surrogates."""
    return secrets.compare_digest(received.encode(errors="surrogateescape"), secret.encode())


DEFAULT_PORT = 8000
SHUTDOWN_SECONDS = 2.0
"""Time for responses in progress at shutdown."""
_FORBIDDEN = (
    "The Console requires its key.\n\n"
    "Open the address that `svc console --web` printed last; each address works once.\n"
)


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Options of the web server. `port` None: port 8000 or a free one; `public`: URL at a proxy or ""."""

    host: str
    port: int | None
    public: str
    insecure: bool


def bind_page(options: WebOptions) -> list[socket.socket]:
    """Return the bound sockets of the page. Raises `SvcError` for a non-loopback host without TLS."""
    if not is_loopback(options.host) and not options.insecure:
        raise InvalidUsage(
            f"the Console would be served on {options.host} without TLS",
            "Leave out --host and use `ssh -L 8000:127.0.0.1:8000` or a TLS "
            "reverse proxy named by --web-url; or pass --insecure if you trust the network.",
        )
    try:
        return bind(options.host, DEFAULT_PORT if options.port is None else options.port)
    except PortInUse as error:
        if options.port is not None:
            hint = "Stop that program, or choose another port: --web-port PORT (0: any free port)"
            raise PortInUse(error.message, hint) from error
        return bind(options.host, 0)


def public_url(text: str, *, insecure: bool) -> str:
    """Return the normalized public URL of the page. Raises `SvcError` if it is invalid or not private."""
    url = service_url(text) if text else ""
    if url:
        check_encryption(url, insecure=insecure)
    return url


async def serve_page(
    engine: EngineConnection, folder: Path | None, options: WebOptions, sockets: Sequence[socket.socket]
) -> None:
    """Serve the Console until a signal arrives. Raises the error with which the service ends its access."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    errors: list[SvcError] = []
    on_stop(lambda _: stop.set())
    info = engine.info
    target = {"project": info.project, "folder": str(folder or ""), "address": info.address}
    url = urlsplit(f"//{authority(sockets[0])}")
    local = f"127.0.0.1:{url.port}" if url.hostname in ("0.0.0.0", "::") else url.netloc
    address = options.public or f"http://{local}"
    access = BrowserAuth(options.host, options.public, lambda key: stdout.line(f"{address}/?key={key}"))
    pages = Pages()
    # Cookies are shared between ports: another Console on this host has its own cookie.
    cookie = f"svc-console-{sockets[0].getsockname()[1]}"
    app = _application(pages, access, cookie, Visitor(None, info.project, Launch(target, os.environ)))
    loop.add_signal_handler(signal.SIGINT, _interrupted, pages, stop)

    def watch_access() -> None:
        if (error := engine.wait_for_lost_access()) is not None:
            errors.append(error)
            loop.call_soon_threadsafe(stop.set)

    try:
        engine.start(_report)
        threading.Thread(target=watch_access, name="access", daemon=True).start()
        server = serve(asgi_handler(app), list(sockets), stop=stop, grace=SHUTDOWN_SECONDS)
        serving = asyncio.create_task(server)
        hint = "each address admits one browser; press ctrl+c to stop"
        stderr.progress(f"open the address in a browser; {hint}")
        await stop.wait()
        await pages.close()
        await serving
    finally:
        await asyncio.to_thread(engine.stop)
    if errors:
        raise errors[0]


def _application(pages: Pages, access: BrowserAuth, cookie: str, visitor: Visitor) -> Quart:
    """Return the application. Every request requires the key or a cookie."""
    app = create_app("/")

    async def authenticate(project: str) -> Visitor:
        return visitor

    @app.before_request
    async def guard() -> Response | None:
        if not access.is_allowed_host(request.host):
            return Response("This server does not serve that host name.\n", 421)
        key = request.args.get("key") if request.path == "/" else None
        if key is None:
            sent = request.cookies.get(cookie, "")
            valid = any(_equal(sent, issued) for issued in access.cookies)
            return None if valid else Response(_FORBIDDEN, 403)
        if (value := access.exchange_key(key)) is None:
            return Response(_FORBIDDEN, 403)
        answer = Response(status=303, headers={"Location": "/"})
        secure = access.public.startswith("https:")
        answer.set_cookie(cookie, value, httponly=True, samesite="Strict", secure=secure, path="/")
        return answer

    app.register_blueprint(page_routes(pages, authenticate, public=access.public))
    return app


def _interrupted(page: Pages, stop: asyncio.Event) -> None:
    """Stop. With pending edits, warn first and stop at the next interrupt."""
    if not page.pending:
        stop.set()
        return
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    edits = "1 edit is" if page.pending == 1 else f"{page.pending} edits are"
    stderr.warn(f"{edits} not applied", "Press ctrl+c again to stop and discard pending edits.")


def _report(severity: Severity, message: str, hint: str) -> None:
    if severity == "error":
        stderr.render(SvcError(message, hint))
    elif severity == "warning":
        stderr.warn(message, hint)
    else:
        stderr.note(message)
