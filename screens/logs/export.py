"""What is shown of the timeline, all of it, as the bytes of a file: JSON or lines to read. Pure."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from screens.logs.filter import Filter
from screens.logs.format import line
from screens.project_client import ProjectClient
from svc_tui.client import SvcError

AT_ONCE = 1000
"""Records that are asked for at once."""
LINES = frozenset({".txt", ".log"})
JSON = frozenset({".jsonl", ".ndjson"})
Tell = Callable[[int, float], None]
"""Hears how many records are written, and which part of the timeline was looked at: 0 to 1."""


def as_lines(path: Path) -> bool:
    """Return whether a file is for people, by the ending of its name. Raises `SvcError`."""
    ending = path.suffix.lower()
    if ending not in LINES | JSON:
        raise SvcError(
            f"what is to be in {path} can not be told by its name",
            "Names end in .jsonl, for JSON with all that was recorded, or in .txt or .log, for lines.",
        )
    return ending in LINES


def exported(link: ProjectClient, filter: Filter, *, lines: bool, tell: Tell) -> Iterator[bytes]:
    """Yield the records that pass a filter, up to the last there is at the beginning. Raises `SvcError`.

    They are asked for a part at a time, so that neither side holds more than that.
    """
    written, after, first, last = 0, 0, 0, None
    began = monotonic()
    while True:
        params: dict[str, Any] = {
            **filter.params(monotonic() - began),
            "after": after,
            "n": AT_ONCE,
            "below": "true",
        }
        answer = link.call_sync("GET", "/logs/window", params=params)
        if last is None:
            first, last = answer["first"], answer["last"]
        found = [document for document in answer["records"] if document["cursor"] <= last]
        yield b"".join(_encoded(document, lines) for document in found)
        written += len(found)
        after = found[-1]["cursor"] if found else last
        tell(written, (after - first + 1) / max(last - first + 1, 1))
        if len(found) < AT_ONCE:
            return


def _encoded(document: dict[str, Any], lines: bool) -> bytes:
    below = document.pop("below", ())
    text = line(document, below) if lines else json.dumps(document, ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"
