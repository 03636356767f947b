"""Redaction of credentials in a capsule, also in requests of the code to other servers.

Values under known names are replaced, then equal values elsewhere. Each distinct value is replaced by a text
of its own, such as `[redacted 1]`. So a request with a token still finds the row with this token.
"""

import hashlib
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from secrets import choice
from typing import Any
from urllib.parse import quote, quote_plus

from engine.gateway.door_delivery import FILES_URL
from engine.stepwise_json import dump_verbatim
from engine.timeline.record import format_utc
from engine.timeline.recording import (
    REDACTED_VALUE,
    RecordedCall,
    Redaction,
    folded,
    is_credential,
    redacted_call,
)
from engine.wasm.outbound.http import RecordedResponse

MIN_VALUE_CHARS = 6
"""Minimum length of a value that is replaced wherever it occurs."""
MAX_COLUMN_VALUES = 10_000
"""Maximum values of columns that are replaced elsewhere, too."""
_ALPHABETS = ("0123456789", "abcdef", "ABCDEF", "ghijklmnopqrstuvwxyz", "GHIJKLMNOPQRSTUVWXYZ")
_CHARACTER = re.compile("%[0-9A-Fa-f]{2}|[0-9A-Za-z]")


class Redactor(Redaction):
    """Replaces credentials. `hits` counts replacements by the kind of place and the name there."""

    def __init__(self, added: Iterable[str] = (), exempt: Iterable[str] = ()) -> None:
        """`added` are further names of credentials, and `exempt` is not redacted. Case is ignored."""
        super().__init__()
        self.hits: Counter[tuple[str, str]] = Counter()
        self._added = frozenset(map(folded, added))
        self._exempt = frozenset(map(folded, exempt))
        self._replacements: dict[str, str] = {}
        self._columns: set[str] = set()
        self._names: dict[str, tuple[str, str]] = {}
        self._pattern: re.Pattern[str] | None = None
        self._value_of: dict[str, str] = {}

    def is_secret(self, name: str) -> bool:
        """Return whether a name of a field, key, parameter or column stands for a credential."""
        name = folded(name)
        return name not in self._exempt and (name in self._added or is_credential(name))

    def add_value(self, name: str, value: str) -> None:
        """Redact a value wherever it occurs; it is the secret `name`."""
        if folded(name) not in self._exempt and len(value) >= MIN_VALUE_CHARS:
            self._replace(value, ("value", name))

    def replace(self, location: str, name: str, value: Any) -> Any:
        """Return the text that stands for a credential."""
        value = value if isinstance(value, str) else dump_verbatim(value)
        if value in ("", REDACTED_VALUE):
            return value
        self.hits[location, name] += 1
        known = value in self._names
        everywhere = location != "column" or len(self._columns) < MAX_COLUMN_VALUES
        text = self._replace(value, ("value", name), everywhere=everywhere)
        if location == "column" and not known and value in self._names:
            self._columns.add(value)
        return text

    def _replace(self, value: str, match: tuple[str, str], *, everywhere: bool = True) -> str:
        text = self._replacements.setdefault(value, f"[redacted {len(self._replacements) + 1}]")
        if everywhere and len(value) >= MIN_VALUE_CHARS and value not in self._names:
            self._names[value] = match
            self._pattern = None
        return text

    def _value(self, location: str, name: str, value: Any) -> Any:
        """Return a replacement: of header fields, of each cookie and of the last word of others."""
        if location != "field":
            return super()._value(location, name, value)
        if name == "cookie":
            pairs = (pair.strip().partition("=") for pair in value.split(";"))
            return "; ".join(key + sign + self._stand_in(name, cookie) for key, sign, cookie in pairs)
        scheme, blank, credential = value.rpartition(" ")
        return scheme + blank + self._stand_in(name, credential)

    def _stand_in(self, name: str, value: str) -> str:
        """Return a random text of the form of a credential, so that code accepts it.

        The SHA-256 of the credential is replaced by the one of the text, so a row is still found by it.
        """
        if value in ("", REDACTED_VALUE):
            return value
        if value not in self._replacements:
            text = _CHARACTER.sub(
                lambda match: next((choice(each) for each in _ALPHABETS if match[0] in each), match[0]), value
            )
            self._replacements |= zip(_with_digests(value), _with_digests(text), strict=True)
        self.hits["field", name] += 1
        for form in _with_digests(value):
            self._replace(form, ("value", name))
        return self._replacements[value]

    def values(self) -> Mapping[str, str]:
        """Return the replacements of values that are replaced wherever they occur."""
        return {value: self._replacements[value] for value in self._names}

    def forget_unused(self, texts: str) -> None:
        """Stop replacing the values of columns that do not occur in the texts of a request."""
        unused = [value for value in self._columns if not any(form in texts for form in _forms(value))]
        for value in unused:
            del self._names[value]
        self._columns.clear()
        self._pattern = None

    def text(self, text: str) -> str:
        """Return a text without the values of credentials."""
        if self._pattern is None:
            self._value_of = {form: value for value in reversed(self._names) for form in _forms(value)}
            forms = sorted(self._value_of, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, forms)) or "(?!)")
        return self._pattern.sub(lambda match: self._replacement(match[0]), text)

    def _replacement(self, form: str) -> str:
        value = self._value_of[form]
        self.count(value)
        return self._replacements[value]

    def count(self, value: str) -> None:
        self.hits[self._names[value]] += 1

    def names_in(self, parts: Iterable[bytes | Path]) -> list[str]:
        """Return the names of credentials whose values occur in files, which are not redacted."""
        contents = [part if isinstance(part, bytes) else part.read_bytes() for part in parts]
        return sorted(
            {
                self._names[value][1]
                for value in self._names
                if any(form.encode() in content for form in _forms(value) for content in contents)
            }
        )

    def data(self, body: bytes) -> bytes:
        """Return a body without the values of credentials; other bytes stay as they are."""
        return self.text(body.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def everywhere(self, value: Any) -> Any:
        """Return a JSON value without the values of credentials."""
        if isinstance(value, dict):
            return {key: self.everywhere(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.everywhere(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def message(self, message: dict[str, Any], change: Callable[[bytes], bytes]) -> dict[str, Any]:
        """Return a recorded message with a changed body; its `size` and `content-length` fit."""
        before = b64decode(message["body"])
        body = change(before)
        if body == before:
            return message
        fields = [
            [name, str(len(body)) if name == "content-length" else value]
            for name, value in message["headers"]
        ]
        size = message["size"] if message["truncated"] else len(body)
        return {**message, "headers": fields, "body": b64encode(body).decode(), "size": size}


def _forms(value: str) -> set[str]:
    """Return a value as it is, within JSON, within a query, and in other encodings of its bytes."""
    data = value.encode(errors="surrogatepass")
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote_plus(value),
        quote(value, safe=""),
        data.hex(),
        data.hex().upper(),
        b64encode(data).decode().rstrip("="),
        urlsafe_b64encode(data).decode().rstrip("="),
    }


def _with_digests(value: str) -> tuple[str, ...]:
    """Return a value, and its SHA-256 in the encodings of code that stores it."""
    digest = hashlib.sha256(value.encode()).digest()
    return (
        value,
        digest.hex(),
        *(encode(digest).decode().rstrip("=") for encode in (urlsafe_b64encode, b64encode)),
    )


def fetch_document(call: RecordedCall, redactor: Redactor) -> dict[str, Any]:
    """Return a call to another server, redacted by names."""
    redacted = redacted_call(call, redactor)
    response = None if redacted.response is None else {**redacted.response, "body": redacted.received}
    return {
        "span_id": call.span_id,
        "time": format_utc(call.time_ns),
        "request": {**(redacted.request or {}), "body": redacted.sent},
        "response": response,
        "complete": call.complete,
    }


def redacted_fetch(fetch: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a call without the values of credentials."""
    redacted = dict(fetch)
    for side in ("request", "response"):
        message = fetch[side]
        if message is not None:
            body = b64encode(redactor.data(b64decode(message["body"]))).decode()
            redacted[side] = {**message, "headers": redactor.everywhere(message["headers"]), "body": body}
    redacted["request"]["url"] = redactor.text(redacted["request"]["url"])
    return redacted


def recorded_responses(fetches: Sequence[Mapping[str, Any]]) -> list[RecordedResponse]:
    """Return the complete responses of other servers of a replay, and what was sent of files."""
    return [
        RecordedResponse(
            method=fetch["request"]["method"],
            url=fetch["request"]["url"],
            status=fetch["response"]["status"],
            headers=tuple((name, value.encode("latin-1")) for name, value in _framed(fetch)),
            body=b64decode(fetch["response"]["body"]),
        )
        for fetch in fetches
        if fetch["response"] is not None
        and (fetch["complete"] or fetch["request"]["url"].startswith(FILES_URL))
    ]


def _framed(fetch: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the header fields; `content-length` is that of a whole body, which may be redacted."""
    length = len(b64decode(fetch["response"]["body"])) if fetch["complete"] else 0
    return [
        (name, str(length) if length and name == "content-length" else value)
        for name, value in fetch["response"]["headers"]
    ]
