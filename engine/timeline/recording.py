"""Recordings of requests and responses, stored so that they can be inspected and replayed.

A recording adds almost no cost to a request: header lists and chunks are stored as they are. Secret values
are redacted by name when the recording is written, on another thread.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from engine.stepwise_json import dump_verbatim, load_verbatim
from engine.timeline.record import Document, format_utc, parse_utc
from engine.trace import Capture

REDACTED_VALUE = "[redacted]"
_CREDENTIAL = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|passcode|session|cookie|credential|jwt|csrf|xsrf)s?\d*(?:_|$)"
    r"|(?:^|_)(?:o?auth|authorization|authentication|bearer|assertion|otp|pin|pwd|sid|sig|signature)\d*(?:_|$)"
    r"|(?:^|_)(?:access|account|admin|api|encryption|license|master|private|service|shared|signing"
    r"|subscription)_?keys?(?:_|$)|sess(?:ion)?_?id(?:_|$)|^x_(?:\w+_)?key$|samlresponse"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_PARAMETER = re.compile(r"([?&;#]([^=&;?#\s]+)=)([^&;?#\s]*)")
_FORM_FIELD = re.compile(r"((?:^|&)([^=&]*)=)([^&]*)")
_JSON_FIELD = re.compile(r'("((?:[^"\\]|\\.){0,100})"\s*:\s*)("(?:[^"\\]|\\.)*"?|[\w.+-]+)')
_PART_NAME = re.compile(r';\s*name="?([^";\r\n]*)')
_MAX_NAME_CHARS = 1000
_FLAGS = frozenset({"", "true", "false", "null"})
"""Values that are not credentials, whatever their name."""


def folded(name: str) -> str:
    """Return a name in lower case, with its words separated by `_`."""
    return _SEPARATORS.sub("_", _CAMEL.sub("_", name).lower()).strip("_")


@lru_cache(4096)
def is_credential(name: str) -> bool:
    return len(name) <= _MAX_NAME_CHARS and _CREDENTIAL.search(folded(name)) is not None


class Redaction:
    """Replaces the values of names that stand for credentials."""

    def __init__(
        self, added: Set[str] = frozenset(), replace: Callable[[str, str, Any], Any] | None = None
    ) -> None:
        """`added` are further names, in lower case. `replace` gets the kind of place, name and value."""
        self._further, self._callback = added, replace

    def is_secret(self, name: str) -> bool:
        """Return whether a name of a field, key, parameter or column stands for a credential."""
        return is_credential(name) or name.lower() in self._further

    def replace(self, location: str, name: str, value: Any) -> Any:
        return self._callback(location, name, value) if self._callback else REDACTED_VALUE

    def headers(self, fields: Iterable[Iterable[str]]) -> list[tuple[str, str]]:
        """Return header fields, redacted by name; URLs in others by the names of parameters."""
        return [
            (name, self._value("field", name, value) if self.is_secret(name) else self.target(value))
            for name, value in fields
        ]

    def target(self, target: str) -> str:
        """Return a path or URL with its query, redacted by the names of parameters."""
        return self._pairs(_PARAMETER, target, "parameter") if "=" in target else target

    def body(self, body: bytes, content_type: str) -> bytes:
        """Return a body; JSON and forms are redacted by name. Other bodies are returned unchanged."""
        media = content_type.partition(";")[0].strip().lower()
        # curl sends JSON with the content type of a form unless it is given another one.
        if body.lstrip()[:1] in (b"{", b"["):
            try:
                document = load_verbatim(body)
                redacted = self.document(document)
            except (ValueError, RecursionError):  # It was cut, or has several documents.
                return _JSON_FIELD.sub(self._cut_field, body.decode("latin-1")).encode("latin-1", "replace")
            text = dump_verbatim(redacted)
            return body if redacted == document else text.encode(errors="backslashreplace")
        if media == "application/x-www-form-urlencoded":
            return self._pairs(_FORM_FIELD, body.decode("latin-1"), "key").encode("latin-1")
        if media == "multipart/form-data":
            parts = body.decode("latin-1").split("\r\n--")
            return "\r\n--".join(map(self._part, parts)).encode("latin-1", "replace")
        return body

    def document(self, value: Any, name: str | None = None) -> Any:
        """Return a JSON value, redacted by the keys of objects. `name` is a key that is a credential's."""
        if isinstance(value, dict):
            return {
                key: self.document(item, name or (key if self.is_secret(key) else None))
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.document(item, name) for item in value]
        if name is None or value is None or isinstance(value, bool):
            return value
        return self._value("key", name, value)

    def _value(self, location: str, name: str, value: Any) -> Any:
        return value if value in _FLAGS else self.replace(location, name, value)

    def _pairs(self, pattern: re.Pattern[str], text: str, location: str) -> str:
        def changed(match: re.Match[str]) -> str:
            name = unquote_plus(match[2])
            if not self.is_secret(name):
                return match[0]
            value = unquote_plus(match[3])
            new = self._value(location, name, value)
            if new == value:
                return match[0]
            return match[1] + (REDACTED_VALUE if new == REDACTED_VALUE else quote_plus(str(new)))

        return pattern.sub(changed, text)

    def _cut_field(self, match: re.Match[str]) -> str:
        if not self.is_secret(match[2]):
            return match[0]
        return match[1] + json.dumps(self._value("key", match[2], match[3].strip('"')))

    def _part(self, text: str) -> str:
        head, blank, value = text.partition("\r\n\r\n")
        name = _PART_NAME.search(head)
        if not blank or name is None or not self.is_secret(name[1]):
            return text
        return head + blank + str(self._value("key", name[1], value))


Headers = list[tuple[bytes, bytes]]
MAX_BODY_BYTES = 64 << 10
_OVERHEAD = 1024
_HEAD_FIELDS = ("time_ns", "method", "scheme", "authority", "target", "status")
"""Fields that a recording, its stored form and the JSON have alike."""


class BodyCapture:
    """A body in transit: its first `MAX_BODY_BYTES` bytes, its total size, and whether it is complete."""

    __slots__ = ("chunks", "ended", "size", "stored_size")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.stored_size = 0
        self.size = 0
        self.ended = False

    def add(self, chunk: bytes, *, ended: bool) -> None:
        """Add a part of the body; it is copied only if it must be cut."""
        self.ended = ended
        if not chunk:
            return
        self.size += len(chunk)
        remaining = MAX_BODY_BYTES - self.stored_size
        if remaining > 0:
            piece = chunk if len(chunk) <= remaining else chunk[:remaining]
            self.chunks.append(bytes(piece))
            self.stored_size += len(piece)


@dataclass(slots=True)
class Recording:
    """One client request and its response.

    `redact` has further names to redact, in lower case. `status` is 0 if no response head was sent.
    """

    project: str
    request_id: str
    _: KW_ONLY
    time_ns: int
    method: str
    scheme: str
    authority: str
    target: str
    headers: Headers
    redact: frozenset[str] = frozenset()
    body: BodyCapture = field(default_factory=BodyCapture)
    status: int = 0
    response_headers: Headers = field(default_factory=list)
    response: BodyCapture = field(default_factory=BodyCapture)
    captures: list[tuple[str, Capture]] = field(default_factory=list)
    """Calls to Doors, each with the id of its span."""

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        calls = sum(_OVERHEAD + len(each.sent) + len(each.received) for _, each in self.captures)
        return _OVERHEAD + self.body.stored_size + self.response.stored_size + calls


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A stored head and body. Redacted values are `REDACTED_VALUE`.

    `size` is the total size of the body in bytes; `ended` is false if it was aborted.
    """

    headers: tuple[tuple[str, str], ...]
    body: bytes
    size: int
    ended: bool

    @property
    def complete(self) -> bool:
        return self.ended and self.size == len(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A stored call: its span, and the bodies of request and response.

    `time_ns` is when it began. For a call to another server, bodies are base64, `request` has `method`, `url`
    and `headers`, and `response` has `status` and `headers`. Both are None for a call to a Door.
    """

    span_id: str
    time_ns: int
    sent: str
    received: str
    complete: bool
    request: dict[str, Any] | None = None
    response: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExchange:
    """A stored recording. `status` is 0 if there was no response."""

    request_id: str
    time_ns: int
    method: str
    scheme: str
    authority: str
    target: str
    request: RecordedMessage
    status: int
    response: RecordedMessage
    calls: tuple[RecordedCall, ...] = ()


def to_exchange(recording: Recording) -> RecordedExchange:
    """Return the stored form of a recording, redacted."""
    exchange, redaction = original(recording), Redaction(recording.redact)
    return replace(
        redacted_request(exchange, redaction),
        response=_redacted(exchange.response, redaction),
        calls=tuple(redacted_call(call, redaction) for call in exchange.calls),
    )


def original(recording: Recording) -> RecordedExchange:
    return RecordedExchange(
        request_id=recording.request_id,
        **{name: getattr(recording, name) for name in _HEAD_FIELDS},
        request=_recorded_message(recording.headers, recording.body),
        response=_recorded_message(recording.response_headers, recording.response),
        calls=tuple(_recorded_call(span_id, capture) for span_id, capture in recording.captures),
    )


def _recorded_call(span_id: str, capture: Capture) -> RecordedCall:
    request = response = None
    sent, received = (body.decode(errors="replace") for body in (capture.sent, capture.received))
    if capture.request is not None:
        method, url, headers = capture.request
        request = {"method": method, "url": url, "headers": _text(headers)}
        sent, received = (b64encode(body).decode() for body in (capture.sent, capture.received))
        if capture.response is not None:
            status, fields = capture.response
            response = {"status": status, "headers": _text(fields)}
    return RecordedCall(
        span_id=span_id,
        time_ns=capture.time_ns,
        sent=sent,
        received=received,
        complete=capture.complete,
        request=request,
        response=response,
    )


def _recorded_message(headers: Iterable[tuple[bytes, bytes]], body: BodyCapture) -> RecordedMessage:
    return RecordedMessage(tuple(_text(headers)), b"".join(body.chunks), body.size, body.ended)


def _text(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return header fields with lower-case names."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]


def redacted_request(exchange: RecordedExchange, redaction: Redaction) -> RecordedExchange:
    """Return an exchange with a redacted request."""
    target, request = redaction.target(exchange.target), _redacted(exchange.request, redaction)
    return replace(exchange, target=target, request=request)


def _redacted(message: RecordedMessage, redaction: Redaction) -> RecordedMessage:
    body = redaction.body(message.body, dict(message.headers).get("content-type", ""))
    size = len(body) if message.complete else message.size
    return replace(message, headers=tuple(redaction.headers(message.headers)), body=body, size=size)


def redacted_call(call: RecordedCall, redaction: Redaction) -> RecordedCall:
    """Return a redacted call to another server. One to a Door has no names for its values."""
    if call.request is None:
        return call

    def redacted(head: dict[str, Any], body: str) -> tuple[dict[str, Any], str]:
        fields = redaction.headers(head["headers"])
        content = redaction.body(b64decode(body), dict(fields).get("content-type", ""))
        return {**head, "headers": fields}, b64encode(content).decode()

    request, sent = redacted(call.request, call.sent)
    request["url"] = redaction.target(request["url"])
    response, received = redacted(call.response, call.received) if call.response else (None, call.received)
    return replace(call, request=request, sent=sent, response=response, received=received)


def restored(
    edited: RecordedExchange, exchange: RecordedExchange | None, names: frozenset[str]
) -> tuple[RecordedExchange, list[str]]:
    """Return a redacted and maybe edited request with the credentials of the original `exchange`.

    `names` are those that are redacted besides the usual ones. Equal names have their values in order. The
    list has the names in path and body whose values are unknown.
    """
    values: dict[tuple[str, str], list[Any]] = {}
    unknown = set[str]()

    def collect(location: str, name: str, value: Any) -> str:
        values.setdefault((location, name), []).append(value)
        return REDACTED_VALUE

    def restore(location: str, name: str, value: Any) -> Any:
        if value == REDACTED_VALUE:
            if left := values.get((location, name)):
                return left.pop(0)
            unknown.update([] if location == "field" else [name])
        return value

    stored = exchange and redacted_request(exchange, Redaction(names, collect))
    result = redacted_request(edited, Redaction(names, restore))
    if (
        exchange is not None and stored is not None and edited.request.complete
    ):  # What was not edited is exact.
        target = exchange.target if edited.target == stored.target else result.target
        same = edited.request.body == stored.request.body
        body = exchange.request.body if same else result.request.body
        fields = result.request.headers
        headers = tuple(
            (name, str(len(body)) if name == "content-length" else value) for name, value in fields
        )
        request = replace(result.request, headers=headers, body=body, size=len(body))
        result = replace(result, target=target, request=request)
    return result, sorted(unknown)


def encode(exchange: RecordedExchange) -> tuple[str, bytes, bytes]:
    """Return the stored form: JSON of everything but the bodies, and the two bodies."""
    head = {name: getattr(exchange, name) for name in _HEAD_FIELDS}
    for prefix, each in (("", exchange.request), ("response_", exchange.response)):
        head |= {f"{prefix}{name}": getattr(each, name) for name in ("headers", "size", "ended")}
    head["calls"] = [asdict(call) for call in exchange.calls]
    return json.dumps(head), exchange.request.body, exchange.response.body


def decode(request_id: str, head: str, request: bytes, response: bytes) -> RecordedExchange:
    """Return the exchange of a stored form."""
    fields = json.loads(head)

    def message(prefix: str, body: bytes) -> RecordedMessage:
        headers = tuple((name, value) for name, value in fields[f"{prefix}headers"])
        return RecordedMessage(headers, body, fields[f"{prefix}size"], fields[f"{prefix}ended"])

    return RecordedExchange(
        request_id=request_id,
        **{name: fields[name] for name in _HEAD_FIELDS},
        request=message("", request),
        response=message("response_", response),
        # Earlier versions of svc stored the changed rows.
        calls=tuple(
            RecordedCall(**{name: call[name] for name in call if name != "changes"})
            for call in fields.get("calls", ())
        ),
    )


REPLAY_NOTE = "replay of "
"""Beginning of the record that marks a request as the replay of another."""
_LINE = ("method", "target", "scheme", "authority")


def exchange_document(exchange: RecordedExchange, records: Sequence[Document]) -> dict[str, Any]:
    """Return a recorded request with its response and its records. Bodies are base64."""
    spans = [record for record in records if record["kind"] == "request"]
    peaks = (span["peak_memory"] for span in spans)
    root = next((span for span in spans if span["root"]), {"code": "", "wall_ns": 0})
    notes = [record["body"] for record in records if record["kind"] == "platform"]
    replayed = (text.removeprefix(REPLAY_NOTE) for text in notes if text.startswith(REPLAY_NOTE))
    response = {"status": exchange.status, "complete": exchange.response.ended, **_message(exchange.response)}
    return {
        "request_id": exchange.request_id,
        "time": format_utc(exchange.time_ns),
        "replay_of": next(replayed, None),
        "request": {**{name: getattr(exchange, name) for name in _LINE}, **_message(exchange.request)},
        "response": response if exchange.status else None,
        "code": root["code"],
        "wall_ns": root["wall_ns"],
        "compute_ns": sum(span["compute_ns"] for span in spans),
        "peak_memory": max((peak for peak in peaks if peak is not None), default=None),
        "records": [*records],
    }


def recorded_request(document: Mapping[str, Any]) -> RecordedExchange:
    """Return the request of a document, without a response. Raises `ValueError`, `KeyError`, `TypeError`."""
    request = document["request"]
    body = b64decode(request["body"], validate=True)
    headers = tuple((str(name), str(value)) for name, value in request["headers"])
    ended = not request["truncated"]
    size = len(body) if ended else int(request["size"])
    line: dict[str, Any] = {name: str(request[name]) for name in _LINE}
    return RecordedExchange(
        request_id=str(document["request_id"]),
        time_ns=parse_utc(document["time"]),
        **line,
        request=RecordedMessage(headers, body, size, ended),
        status=0,
        response=RecordedMessage((), b"", 0, ended=False),
    )


def _message(message: RecordedMessage) -> dict[str, Any]:
    return {
        "headers": list(message.headers),
        "body": b64encode(message.body).decode(),
        "size": message.size,
        "truncated": not message.complete,
    }
