"""The column types of a control API, for the command line and the Console. Pure."""

from collections.abc import Iterable, Mapping, Sequence
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
        """True if cells are aligned right."""
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
