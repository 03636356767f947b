"""Export of the filtered timeline as JSON lines or text. Does not import Textual."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from screens.logs.filter import RecordSelection
from screens.logs.format import line
from screens.project_client import ProjectClient
from svc_tui.client import SvcError

PAGE_RECORDS = 1000
"""Records per request."""
LINES = frozenset({".txt", ".log"})
JSON = frozenset({".jsonl", ".ndjson"})
OnExportProgress = Callable[[int, float], None]
"""Receives the number of written records and the processed fraction of the timeline, from 0 to 1."""


def is_text_file(path: Path) -> bool:
    """Return whether a file is for text lines, not JSON, by its suffix. Raises `SvcError` for others."""
    suffix = path.suffix.lower()
    if suffix not in LINES | JSON:
        raise SvcError(
            f"unknown file format: {path}",
            "Use .jsonl for complete JSON records, or .txt or .log for text lines.",
        )
    return suffix in LINES


def export_records(
    client: ProjectClient, filter: RecordSelection, *, lines: bool, on_progress: OnExportProgress
) -> Iterator[bytes]:
    """Yield the encoded records that match a filter, up to the last one at the start. Raises `SvcError`.

    Records are requested page by page, which bounds memory on both sides.
    """
    count, after, first, last = 0, 0, 0, None
    began = monotonic()
    while True:
        params: dict[str, Any] = {
            **filter.params(monotonic() - began),
            "after": after,
            "n": PAGE_RECORDS,
            "spans": "true",
        }
        answer = client.call_sync("GET", "/logs/window", params=params)
        if last is None:
            first, last = answer["first"], answer["last"]
        records = [document for document in answer["records"] if document["cursor"] <= last]
        yield b"".join(_encoded(document, lines) for document in records)
        count += len(records)
        after = records[-1]["cursor"] if records else last
        on_progress(count, (after - first + 1) / max(last - first + 1, 1))
        if not records or after >= last:
            return


def _encoded(document: dict[str, Any], lines: bool) -> bytes:
    spans = document.pop("spans", ())
    text = line(document, spans) if lines else json.dumps(document, ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"
