"""Redaction of credentials by name: header fields, parameters of a query, and fields of JSON and forms."""

import json
import re
from collections.abc import Callable, Iterable, Set
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from engine.stepwise_json import dump_verbatim, load_verbatim

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
    """Return whether a name stands for a credential."""
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
        """Return the text that stands for a credential."""
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
            return self._json(body)
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

    def _json(self, body: bytes) -> bytes:
        try:
            document = load_verbatim(body)
            redacted = self.document(document)
        except (ValueError, RecursionError):  # It was cut, or has several documents.
            return _JSON_FIELD.sub(self._cut_field, body.decode("latin-1")).encode("latin-1", "replace")
        text = dump_verbatim(redacted)
        return body if redacted == document else text.encode(errors="backslashreplace")

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
        """Return a part of a multipart form."""
        head, blank, value = text.partition("\r\n\r\n")
        name = _PART_NAME.search(head)
        if not blank or name is None or not self.is_secret(name[1]):
            return text
        return head + blank + str(self._value("key", name[1], value))
