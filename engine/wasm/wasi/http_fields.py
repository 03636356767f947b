"""`fields` of `wasi:http/types@0.2`: header and trailer fields (source: wasi:http 0.2.12; RFC 9110 5).

Names are lower-case; order and duplicates are preserved.
"""

import re

from engine.wasm.capi.values import Err
from engine.wasm.execution.run_state import RunState
from engine.wasm.wasi.ownership import ChildResource, ParentResource
from engine.wasm.wasi.registry import getter, host, method, resource

TYPES = "wasi:http/types"
Items = list[tuple[str, bytes]]
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
MAX_FIELDS_BYTES = 65536
"""Maximum size of one `fields` in bytes: names, values, and `FIELD_OVERHEAD_BYTES` for each field."""
FIELD_OVERHEAD_BYTES = 32
_LENGTH = re.compile(rb"[0-9]{1,18}")
FORBIDDEN = frozenset(
    {
        "connection",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    }
)
"""Connection-level field names, which only the host sets."""


def _size(name: str, value: bytes) -> int:
    return len(name) + len(value) + FIELD_OVERHEAD_BYTES


@resource("fields")
class Fields(ChildResource):
    """A multimap of names to values. A view of a message is `immutable`, and the message is its parent."""

    __slots__ = ("immutable", "items", "size")

    def __init__(self, items: Items | None = None, parent: ParentResource | None = None) -> None:
        super().__init__(parent)
        self.items = items if items is not None else []
        self.immutable = parent is not None
        self.size = 0

    def replace(self, run: RunState, items: Items) -> None:
        """Replace all entries. Raises Err above `MAX_FIELDS_BYTES`."""
        self._resize(run, sum(_size(name, value) for name, value in items))
        self.items = items

    def append(self, run: RunState, name: str, value: bytes) -> None:
        """Add an entry. Raises Err above `MAX_FIELDS_BYTES`."""
        self._resize(run, self.size + _size(name, value))
        self.items.append((name, value))

    def _resize(self, run: RunState, size: int) -> None:
        if size > MAX_FIELDS_BYTES:  # wasi:http has no error for it.
            run.notice("WARN", f"header fields of more than {MAX_FIELDS_BYTES >> 10} KiB were refused")
            raise Err(("invalid-syntax", None))
        run.charge_memory(size - self.size)
        self.size = size

    def drop(self, run: RunState) -> None:
        """Detach from the message and release the charged memory."""
        self.detach()
        run.charge_memory(-self.size)
        self.size = 0


getter(TYPES, "fields", "entries", "items")


def is_token(text: str) -> bool:
    """Return whether the text is a valid method or field name (RFC 9110 5.6.2)."""
    return _TOKEN.fullmatch(text) is not None


def _checked_name(name: str) -> str:
    if not is_token(name):
        raise Err(("invalid-syntax", None))
    name = name.lower()
    if name in FORBIDDEN:
        raise Err(("forbidden", None))
    return name


def _checked_value(name: str, value: bytes) -> bytes:
    value = value.strip(b" \t")
    if not _VALUE.fullmatch(value) or (name == "content-length" and not _LENGTH.fullmatch(value)):
        raise Err(("invalid-syntax", None))
    return value


def _check_mutable(fields: Fields) -> None:
    if fields.immutable:
        raise Err(("immutable", None))


@host(TYPES, "[constructor]fields")
def new(run: RunState) -> Fields:
    """Return empty, mutable fields."""
    return Fields()


@host(TYPES, "[static]fields.from-list")
def from_list(run: RunState, entries: Items) -> Fields:
    """Return mutable fields with these entries."""
    checked = []
    for name, value in entries:
        lower = _checked_name(name)
        checked.append((lower, _checked_value(lower, value)))
    return _new_fields(run, checked)


@method(TYPES, "fields", "get")
def get(run: RunState, fields: Fields, name: str) -> list[bytes]:
    """Return every value of a name, in order."""
    name = name.lower()
    return [value for key, value in fields.items if key == name]


@method(TYPES, "fields", "has")
def has(run: RunState, fields: Fields, name: str) -> bool:
    """Return whether a field of this name exists."""
    name = name.lower()
    return any(key == name for key, _ in fields.items)


@method(TYPES, "fields", "set")
def set_(run: RunState, fields: Fields, name: str, values: list[bytes]) -> None:
    """Replace every value of a name."""
    _check_mutable(fields)
    name = _checked_name(name)
    checked = [(name, _checked_value(name, value)) for value in values]
    fields.replace(run, [item for item in fields.items if item[0] != name] + checked)


@method(TYPES, "fields", "delete")
def delete(run: RunState, fields: Fields, name: str) -> None:
    """Remove every value of a name."""
    _check_mutable(fields)
    name = _checked_name(name)
    fields.replace(run, [item for item in fields.items if item[0] != name])


@method(TYPES, "fields", "append")
def append(run: RunState, fields: Fields, name: str, value: bytes) -> None:
    """Add one value."""
    _check_mutable(fields)
    name = _checked_name(name)
    fields.append(run, name, _checked_value(name, value))


@method(TYPES, "fields", "clone")
def clone(run: RunState, fields: Fields) -> Fields:
    """Return a mutable copy."""
    return _new_fields(run, list(fields.items))


def _new_fields(run: RunState, items: Items) -> Fields:
    fields = Fields()
    fields.replace(run, items)
    return fields
