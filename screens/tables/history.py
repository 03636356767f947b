"""History of SQL statements. Pure."""

from collections.abc import Sequence
from typing import Protocol

MAX_STATEMENTS = 500
"""Maximum stored statements."""


class HistoryStore(Protocol):
    """Persistent storage of statements. Read and write errors are ignored."""

    def read(self) -> Sequence[str]:
        """Return the stored statements, the latest last."""

    def write(self, statements: Sequence[str]) -> None:
        """Replace the stored statements."""


class StatementHistory:
    """The statements, the latest last, with a cursor for browsing."""

    def __init__(self, store: HistoryStore | None = None) -> None:
        self._store = store
        self._statements: list[str] | None = None
        self._steps_back = 0
        self._typed = ""

    def add(self, statement: str) -> None:
        """Append a statement; an earlier equal one is removed."""
        statement = statement.strip()
        others = [other for other in self._read() if other != statement]
        self._statements = [*others, statement][-MAX_STATEMENTS:]
        self._steps_back = 0
        if self._store is not None:
            self._store.write(self._statements)

    def step(self, steps: int, typed: str) -> str | None:
        """Return the statement `steps` back (negative: forward), or None if there is none.

        `typed` is the current text, which is returned again after the latest statement.
        """
        statements = self._read()
        steps_back = self._steps_back + steps
        if not 0 <= steps_back <= len(statements):
            return None
        if self._steps_back == 0:
            self._typed = typed
        self._steps_back = steps_back
        return statements[-steps_back] if steps_back else self._typed

    def _read(self) -> list[str]:
        if self._statements is None:
            self._statements = list(self._store.read()) if self._store is not None else []
        return self._statements
