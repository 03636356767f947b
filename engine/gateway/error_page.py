"""The error page for browsers: a single HTML file without assets, light and dark. All values are escaped."""

from dataclasses import dataclass
from html import escape

from engine.ansi import strip_ansi
from engine.errors import SvcError
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
    """Return the HTML document for an error."""
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
