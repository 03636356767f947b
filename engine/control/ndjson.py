"""Streaming NDJSON responses: one JSON document per line."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from quart import Response

MEDIA_TYPE = "application/x-ndjson"
POLL_SECONDS = 0.1
"""Interval at which a following stream polls for new data."""
KEEPALIVE_SECONDS = 1.0
"""Maximum time without a line. The regular line prevents idle timeouts and detects disconnects."""


def line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


class NdjsonResponse(Response):
    """A response of lines. Its last line may be `{"error": {…}}`, a problem document."""


def ndjson_response(lines: AsyncIterator[bytes]) -> Response:
    return NdjsonResponse(lines, content_type=MEDIA_TYPE)
