"""The column types of a control API and the texts of cells, for the command line and the Console. Pure."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

Form = Literal["int", "float", "bool", "string", "format", "document", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeInfo:
    """A column type, as `GET /tables/types` describes it."""

    name: str
    form: Form
    pattern: str = ""
    example: str = ""
    accepts_now: bool = False
    true_words: Sequence[str] = ()
    false_words: Sequence[str] = ()
    width: int = 0
    min_width: int = 0

    @property
    def align_right(self) -> bool:
        return self.form in ("int", "float")

    @property
    def is_long(self) -> bool:
        """True if values may be long texts of several lines."""
        return self.form in ("string", "document")

    @property
    def is_quoted(self) -> bool:
        """True if SQL writes values in single quotes."""
        return self.form in ("string", "format", "document")


COMPUTED = TypeInfo(name="", form="string", width=16)
"""The type of a computed column of a query, or of a type that this version does not have."""


class ColumnTypes:
    """The column types of a control API."""

    def __init__(self, types: Iterable[TypeInfo] = ()) -> None:
        self._types = {type.name: type for type in types}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "ColumnTypes":
        """Return the types of an answer to `GET /tables/types`."""
        return cls(TypeInfo(**fields) for fields in document["types"])

    def __getitem__(self, name: str) -> TypeInfo:
        return self._types.get(name, COMPUTED)

    def names(self) -> list[str]:
        """Return the names of the types, in the order of the API."""
        return list(self._types)


def check_json(text: str) -> None:
    """Raise `ValueError` or `RecursionError` if a text is not JSON."""
    json.loads(text, parse_constant=_refuse_constant, parse_float=str, parse_int=str)


def _refuse_constant(name: str) -> None:
    """Raise `ValueError` for `NaN` and `Infinity`, which Python reads as JSON."""
    raise ValueError(f"{name} is not a JSON value")


def value_text(value: Any) -> str | None:
    """Return a cell as text that an import reads as the same value; None for null."""
    match value:
        case None | str():
            return value
        case dict():
            return str(value["base64"])
        case float():
            return repr(value).replace("inf", "9e999")
    return json.dumps(value)


def row_json(row: Mapping[str, Any], types: Iterable[TypeInfo]) -> str:
    """Return a row of cells as JSON on one line. A document is its own text."""
    pairs = zip(row.items(), types, strict=True)
    members = (f"{_dumps(name)}: {_value_json(value, type)}" for (name, value), type in pairs)
    return f"{{{', '.join(members)}}}"


def _value_json(value: Any, type: TypeInfo) -> str:
    if type.form == "document" and isinstance(value, str):
        with suppress(ValueError, RecursionError):
            check_json(value)
            return value.replace("\n", " ").replace("\r", " ")
    is_text = isinstance(value, dict) or value in (math.inf, -math.inf)
    return _dumps(value_text(value) if is_text else value)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
