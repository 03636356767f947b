"""JSON form of a recorded request for the control API and capsules."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from engine.timeline.json_format import format_utc, parse_utc, to_json
from engine.timeline.record import PlatformRecord, Record, RequestRecord
from engine.timeline.recording import RecordedExchange, RecordedMessage
from engine.timeline.stored_record import StoredRecord

REPLAY_NOTE = "replay of "
"""Beginning of the record that marks a request as the replay of another."""


def exchange_document(exchange: RecordedExchange, entries: Sequence[StoredRecord]) -> dict[str, Any]:
    """Return a recorded request with its response and its records. Bodies are base64."""
    records = [entry.record for entry in entries]
    spans = [record for record in records if isinstance(record, RequestRecord)]
    root = next((span for span in spans if span.root), None)
    request = {
        "method": exchange.method,
        "target": exchange.target,
        "scheme": exchange.scheme,
        "authority": exchange.authority,
        **_message(exchange.request),
    }
    response = {
        "status": exchange.status,
        "complete": exchange.response.ended,
        **_message(exchange.response),
    }
    return {
        "request_id": exchange.request_id,
        "time": format_utc(exchange.time_ns),
        "replay_of": _replay_of(records),
        "request": request,
        "response": response if exchange.status else None,
        "code": root.code if root is not None else "",
        "wall_ns": root.wall_ns if root is not None else 0,
        "compute_ns": sum(span.compute_ns for span in spans),
        "peak_memory": max((s.peak_memory for s in spans if s.peak_memory is not None), default=None),
        "records": [to_json(entry) for entry in entries],
    }


def recorded_request(document: Mapping[str, Any]) -> RecordedExchange:
    """Return the request of a document, without a response. Raises `ValueError`, `KeyError`, `TypeError`."""
    request = document["request"]
    body = b64decode(request["body"], validate=True)
    headers = tuple((str(name), str(value)) for name, value in request["headers"])
    ended = not request["truncated"]
    size = len(body) if ended else int(request["size"])
    return RecordedExchange(
        request_id=str(document["request_id"]),
        time_ns=parse_utc(document["time"]),
        method=str(request["method"]),
        scheme=str(request["scheme"]),
        authority=str(request["authority"]),
        target=str(request["target"]),
        request=RecordedMessage(headers, body, size, ended),
        status=0,
        response=RecordedMessage((), b"", 0, ended=False),
    )


def _message(message: RecordedMessage) -> dict[str, Any]:
    body = b64encode(message.body).decode()
    return {
        "headers": list(message.headers),
        "body": body,
        "size": message.size,
        "truncated": not message.complete,
    }


def _replay_of(records: Sequence[Record]) -> str | None:
    """Return the id of the request that these records are a replay of."""
    texts = (
        record.text
        for record in records
        if isinstance(record, PlatformRecord) and record.text.startswith(REPLAY_NOTE)
    )
    return next((text.removeprefix(REPLAY_NOTE) for text in texts), None)
