"""The platform's error responses: RFC 9457 problem documents, or an HTML page for a browser.

Outside development, they contain no details of the host or the guest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus

from engine.ansi import strip_ansi
from engine.errors import SvcError
from engine.http.exchange import Exchange, Headers
from engine.lane import BuildFailed

_STYLE = """
:root{color-scheme:light dark;--ink:#1c1b1f;--dim:#6b6875;--paper:#faf9f7;--card:#fff;--line:#e4e1dc;
--hot:#c2410c;--code:#f4f2ee}
@media(prefers-color-scheme:dark){:root{--ink:#e9e7e4;--dim:#9b97a3;--paper:#141318;--card:#1c1b22;
--line:#302e38;--hot:#fb923c;--code:#111015}}
*{box-sizing:border-box}body{margin:0;min-height:100vh;display:grid;place-items:center;padding:2rem 1rem;
background:var(--paper);color:var(--ink);font:16px/1.55 ui-sans-serif,system-ui,sans-serif}
main{width:min(54rem,100%)}h1{font-size:1.6rem;margin:.2rem 0 .4rem;letter-spacing:-.01em}
.status{color:var(--hot);font:600 .95rem ui-monospace,monospace}p{margin:.3rem 0;max-width:60ch}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1rem 1.2rem;
margin:1.2rem 0;overflow-x:auto}h2{font-size:.8rem;letter-spacing:.06em;text-transform:uppercase;
color:var(--dim);margin:0 0 .5rem}pre{margin:.4rem 0 0;padding:.7rem .9rem;background:var(--code);
border-radius:8px;overflow-x:auto;font:13.5px/1.5 ui-monospace,monospace;white-space:pre}
.place{font:600 .9rem ui-monospace,monospace;color:var(--hot)}footer{color:var(--dim);font-size:.85rem}
code{font-family:ui-monospace,monospace}
"""


@dataclass(frozen=True, slots=True)
class DebugDetail:
    """Details of an error for developers: a sentence, the guest's last lines, a failed build.

    With `building`, the page reloads itself until the first build is ready.
    """

    detail: str = ""
    lines: tuple[str, ...] = ()
    error: SvcError | None = None
    building: bool = False


def render_error_page(
    status: int, title: str, code: str, meaning: str, request_id: str, debug: DebugDetail | None
) -> str:
    """Return a single HTML file without assets, light and dark. All values are escaped."""
    parts = [f"<p class=status>{status} · {escape(code)}</p><h1>{escape(title)}</h1><p>{escape(meaning)}</p>"]
    if debug is not None:
        if debug.error is not None:
            parts.append(_failure(debug.error))
        elif debug.detail:
            heading = "Building" if debug.building else "What happened"
            parts.append(f"<section><h2>{heading}</h2><p>{escape(debug.detail)}</p></section>")
        if debug.lines:
            lines = escape("\n".join(debug.lines))
            parts.append(f"<section><h2>Printed in this request</h2><pre>{lines}</pre></section>")
    parts.append(f"<footer>request <code>{escape(request_id)}</code></footer>")
    refresh = "<meta http-equiv=refresh content=1>" if debug is not None and debug.building else ""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"{refresh}<title>{status} {escape(title)}</title><style>{_STYLE}</style>"
        f"<main>{''.join(parts)}</main></html>\n"
    )


def _failure(error: SvcError) -> str:
    parts = [f"<h2>The build failed</h2><p>{escape(error.message)}</p>"]
    if isinstance(error, BuildFailed):
        for diagnostic in error.diagnostics:
            position = (diagnostic.file, diagnostic.line, diagnostic.column)
            location = ":".join(str(part) for part in position if part)
            parts.append(f"<p><span class=place>{escape(location)}</span> {escape(diagnostic.message)}</p>")
            if diagnostic.frame:
                parts.append(f"<pre>{escape(strip_ansi(diagnostic.frame))}</pre>")
        if error.output and not error.diagnostics:
            parts.append(f"<pre>{escape(strip_ansi(error.output))}</pre>")
    if error.hint:
        parts.append(f"<p>{escape(error.hint)}</p>")
    return f"<section>{''.join(parts)}</section>"


JSON = b"application/problem+json"
HTML = b"text/html; charset=utf-8"


PROBLEM_TYPES: Mapping[str, tuple[int, str]] = {
    "invalid-host": (400, "The Host header is not a host name and a port."),
    "not-found": (404, "No resource or file matches this address."),
    "unknown-host": (404, "No project and no resource of this service has this host name."),
    "body-too-large": (413, "The request body exceeds the size limit of this service."),
    "guest-failed": (500, "The application failed during this request."),
    "memory-limit": (500, "The application exceeded its memory limit."),
    "rate-limited": (429, "Too many requests from your address. Try again later."),
    "quota-exceeded": (429, "The application has reached its quota. Try again in a moment."),
    "internal": (500, "The service failed during this request."),
    "unavailable": (503, "The application lacks its data at the moment. Try again later."),
    "overloaded": (503, "Too many requests are in progress. Try again in a moment."),
    "not-ready": (503, "The application is not ready yet."),
    "run-limit": (504, "The application exceeded its time limit."),
    "mount-loop": (508, "The request passed through too many mounts."),
}
"""The HTTP status of each error code, and its explanation for clients."""


def wants_page(headers: Headers) -> bool:
    """Return whether the client is a browser: its `Accept` header names `text/html`."""
    return any(name == b"accept" and b"text/html" in value for name, value in headers)


async def send_problem(
    exchange: Exchange, code: str, request_id: str, debug: DebugDetail | None = None, *, retry_after: int = 1
) -> tuple[int, int]:
    """Send the response for an error code; return its status and the size of its body in bytes.

    `retry_after` is in seconds, for the codes after which a client should retry.
    """
    status, meaning = PROBLEM_TYPES[code]
    title, html = HTTPStatus(status).phrase, wants_page(exchange.request.headers)
    if html:
        body = render_error_page(status, title, code, meaning, request_id, debug).encode()
    else:
        document = {
            "type": f"urn:svc:problem:{code}",
            "title": title,
            "status": status,
            "code": code,
            "detail": debug.detail if debug and debug.detail else meaning,
            "request_id": request_id,
        }
        body = json.dumps(document, ensure_ascii=False).encode() + b"\n"
    headers = [
        (b"content-type", HTML if html else JSON),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers.append((b"retry-after", b"%d" % retry_after))
    payload = b"" if exchange.request.method == "HEAD" else body
    await exchange.send_head(status, headers)
    await exchange.send_body(payload, end=True)
    return status, len(payload)
