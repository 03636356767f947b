"""Colors of a body by its content type. Does not import Textual."""

from collections.abc import Sequence
from typing import Any

from screens.widgets.row_source import Line, Tone

MAX_COLORED = 128 << 10
"""Maximum characters of a body that is colored."""
_LEXERS = {
    "application/javascript": "javascript",
    "application/json": "json",
    "application/xml": "xml",
    "image/svg+xml": "xml",
    "text/css": "css",
    "text/html": "html",
    "text/javascript": "javascript",
    "text/xml": "xml",
}
"""Names of lexers of Pygments by content type."""
_TONES: tuple[tuple[str, Tone], ...] = (
    ("Token.Comment", "dim"),
    ("Token.Keyword", "violet"),
    ("Token.Literal.Number", "teal"),
    ("Token.Literal.String", "good"),
    ("Token.Name.Attribute", "yellow"),
    ("Token.Name.Tag", "accent"),
)


def color_body(lines: Sequence[str], content_type: str) -> list[Line]:
    """Return the lines of a body with colors; without, if its type has none or it is too long."""
    media_type = content_type.partition(";")[0].strip().lower()
    for suffix in ("json", "xml"):
        if media_type.endswith(f"+{suffix}"):
            media_type = f"application/{suffix}"
    text = "\n".join(lines)
    if not lines or media_type not in _LEXERS or len(text) > MAX_COLORED:
        return [[(line, "")] for line in lines]
    from pygments.lexers import get_lexer_by_name  # Not at the start: it takes 50 ms.

    colored: list[list[tuple[str, Tone]]] = [[]]
    for kind, part in get_lexer_by_name(_LEXERS[media_type], stripnl=False, ensurenl=False).get_tokens(text):
        first, *others = part.split("\n")
        colored[-1].append((first, _tone(kind)))
        colored += [[(each, _tone(kind))] for each in others]
    return [[piece for piece in line if piece[0]] for line in colored]


def _tone(kind: Any) -> Tone:
    name = str(kind)
    return next((tone for prefix, tone in _TONES if name.startswith(prefix)), "")
