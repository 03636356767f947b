"""The statements that one has run, and the way back to them. Pure."""

from collections.abc import Sequence
from typing import Protocol

MAX_STATEMENTS = 500
"""How many statements are remembered."""


class HistoryStore(Protocol):
    """Where statements stay when the Console ends. What cannot be read or written is left out."""

    def read(self) -> Sequence[str]:
        """Return the statements of before, the latest last."""

    def write(self, statements: Sequence[str]) -> None:
        """Replace the stored statements."""


class DraftHistory:
    """All statements, the latest last, and which of them is looked at."""

    def __init__(self, kept: HistoryStore | None = None) -> None:
        self._kept = kept
        self._all: list[str] | None = None
        self._back = 0
        self._begun = ""

    def ran(self, statement: str) -> None:
        """Remember a statement; one that was run before moves to the end."""
        statement = statement.strip()
        self._all = [*(each for each in self._read() if each != statement), statement][-MAX_STATEMENTS:]
        self._back = 0
        if self._kept is not None:
            self._kept.write(self._all)

    def step(self, back: int, now: str) -> str | None:
        """Return the statement so many steps back, None where there is none; `now` is what is written.

        What was written first comes again in the end.
        """
        every = self._read()
        to = self._back + back
        if not 0 <= to <= len(every):
            return None
        if self._back == 0:
            self._begun = now
        self._back = to
        return every[-to] if to else self._begun

    def _read(self) -> list[str]:
        if self._all is None:
            self._all = list(self._kept.read()) if self._kept is not None else []
        return self._all
