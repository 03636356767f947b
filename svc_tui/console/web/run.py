"""`svc console --web`: the page, the engine beside it, and when both end."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from engine.errors import SvcError
from engine.http.sockets import PortInUse, authority, bind
from svc_tui.client.urls import check_encryption, is_loopback, service_url
from svc_tui.console.engine import EngineConnection
from svc_tui.console.web.auth import BrowserAuth
from svc_tui.console.web.server import Page, serving
from svc_tui.terminal import stderr, stdout

DEFAULT_PORT = 8000


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Where the page is served: `port` `None` is the usual one, or any; `public` what a proxy calls it."""

    host: str
    port: int | None
    public: str
    insecure: bool


def bind_page(where: WebOptions) -> list[socket.socket]:
    """Return the page's sockets. Raises `SvcError` where others could read what is typed into the page."""
    if not is_loopback(where.host) and not where.insecure:
        raise SvcError(
            f"what is typed into the Console would travel to {where.host} in the clear",
            "Leave --host away and reach it through `ssh -L 8000:127.0.0.1:8000` or a proxy with TLS, "
            "which --web-url names; or give --insecure if you trust the network.",
            code="usage",
        )
    try:
        return bind(where.host, DEFAULT_PORT if where.port is None else where.port)
    except PortInUse as error:
        if where.port is not None:
            hint = "Stop that program, or take another port, or any: --web-port 0"
            raise PortInUse(error.message, hint) from error
        return bind(where.host, 0)


def serve_page(
    attachment: EngineConnection, folder: Path | None, where: WebOptions, sockets: Sequence[socket.socket]
) -> None:
    """Serve the Console of what is attached until a signal ends it."""
    asyncio.run(_serve_page(attachment, folder, where, sockets))


def public_url(text: str, *, insecure: bool) -> str:
    """Return the address that a proxy gives the page, in its one form. Raises `SvcError`."""
    if not text:
        return ""
    url = service_url(text)
    check_encryption(url, insecure=insecure)
    return url


async def _serve_page(
    attachment: EngineConnection, folder: Path | None, where: WebOptions, sockets: Sequence[socket.socket]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    place = attachment.info
    wanted = {"project": place.project, "folder": str(folder or ""), "address": place.address}
    command = (sys.executable, "-m", "svc_tui.console.web.child", json.dumps(wanted))
    address = where.public or f"http://{_browser_address(sockets[0])}"
    access = BrowserAuth(where.host, where.public, lambda key: stdout.line(f"{address}/?key={key}"))
    page = Page(access, command, place.project, int(sockets[0].getsockname()[1]))
    loop.add_signal_handler(signal.SIGINT, _interrupted, page, stop)
    try:
        attachment.start(_report)
        async with serving(page, sockets):
            stderr.progress("open it in a browser; each address lets one in; ctrl+c ends it")
            await stop.wait()
    finally:
        await asyncio.to_thread(attachment.stop)


def _interrupted(page: Page, stop: asyncio.Event) -> None:
    """End, but say first that edits would be lost, and end by the next one."""
    if not page.pending:
        stop.set()
        return
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    edits = "1 edit is" if page.pending == 1 else f"{page.pending} edits are"
    stderr.warn(f"{edits} not applied", "ctrl+c once more ends the page, and drops what is pending.")


def _browser_address(opened: socket.socket) -> str:
    """Return the address of a socket as a browser on this machine reaches it."""
    shown = urlsplit(f"//{authority(opened)}")
    if shown.hostname in ("0.0.0.0", "::"):
        return f"127.0.0.1:{shown.port}"
    return authority(opened)


def _report(severity: Literal["error", "warning", "information"], message: str, hint: str) -> None:
    if severity == "error":
        stderr.render(SvcError(message, hint))
    elif severity == "warning":
        stderr.warn(message, hint)
    else:
        stderr.note(message)
