"""The error page that a browser gets: one file, no assets, light and dark.

Owns its looks. Everything that did not come from this file is escaped.
"""

from html import escape
from typing import TYPE_CHECKING

from engine.ansi import strip_ansi
from engine.errors import SvcError
from engine.lane import BuildFailed

if TYPE_CHECKING:
    from engine.gateway.problem import Insight

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


def page(status: int, title: str, code: str, meaning: str, request_id: str, insight: "Insight | None") -> str:
    """Return the HTML document for an error."""
    parts = [f"<p class=status>{status} · {escape(code)}</p><h1>{escape(title)}</h1><p>{escape(meaning)}</p>"]
    if insight is not None:
        if insight.error is not None:
            parts.append(_failure(insight.error))
        elif insight.detail:
            heading = "Building" if insight.building else "What happened"
            parts.append(f"<section><h2>{heading}</h2><p>{escape(insight.detail)}</p></section>")
        if insight.lines:
            lines = escape("\n".join(insight.lines))
            parts.append(f"<section><h2>Printed in this request</h2><pre>{lines}</pre></section>")
    refresh = "<meta http-equiv=refresh content=1>" if insight is not None and insight.building else ""
    parts.append(f"<footer>request <code>{escape(request_id)}</code></footer>")
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"{refresh}<title>{status} {escape(title)}</title><style>{_STYLE}</style>"
        f"<main>{''.join(parts)}</main></html>\n"
    )


def _failure(error: SvcError) -> str:
    parts = [f"<h2>The build failed</h2><p>{escape(error.message)}</p>"]
    if isinstance(error, BuildFailed):
        for found in error.diagnostics:
            place = ":".join(str(part) for part in (found.file, found.line, found.column) if part)
            parts.append(f"<p><span class=place>{escape(place)}</span> {escape(found.message)}</p>")
            if found.frame:
                parts.append(f"<pre>{escape(strip_ansi(found.frame))}</pre>")
        if error.output and not error.diagnostics:
            parts.append(f"<pre>{escape(strip_ansi(error.output))}</pre>")
    if error.hint:
        parts.append(f"<p>{escape(error.hint)}</p>")
    return f"<section>{''.join(parts)}</section>"
