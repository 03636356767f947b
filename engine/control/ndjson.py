"""Answers that go on: NDJSON, a document a line, for as long as somebody reads. Owns their form and pace."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from quart import Response

MEDIA_TYPE = "application/x-ndjson"
POLL_SECONDS = 0.1
"""How long a stream that follows waits between two looks at what is new."""
KEEPALIVE_SECONDS = 1.0
"""How long a stream says nothing at most: what is in between does not close it, and its reader gets to look
whether anybody reads it in turn.
"""


def line(told: Mapping[str, Any]) -> bytes:
    """Return a document as a line."""
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def ndjson_response(lines: AsyncIterator[bytes]) -> Response:
    """Return the response that sends lines as they come."""
    return Response(lines, content_type=MEDIA_TYPE)
