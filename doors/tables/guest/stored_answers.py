"""Answers to writes with an idempotency key, stored in the transaction of the write.

So a repeated request is answered and not run again, on any node of a fleet and after a restart.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256

from doors.tables.guest.problem import GuestProblem
from doors.tables.guest.protocol import SqlRequest
from doors.tables.guest.session import GuestSession
from doors.tables.sqlite.catalog import ANSWERS
from engine.door import DoorResponse

STORED_SECONDS = 24 * 3600
MAX_ANSWER = 64 << 10
_CREATE = f"""CREATE TABLE {ANSWERS} (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, request TEXT NOT NULL, answer BLOB NOT NULL,
    at INTEGER NOT NULL
)"""
_EXISTS = f"SELECT 1 FROM sqlite_schema WHERE name = '{ANSWERS}'"
_FIND = f"SELECT request, answer FROM {ANSWERS} WHERE key = ?"
_INSERT = f"INSERT INTO {ANSWERS} (key, request, answer, at) VALUES (?, ?, ?, unixepoch())"
_EXPIRE = f"""DELETE FROM {ANSWERS} WHERE at < unixepoch() - {STORED_SECONDS}
    AND id IN (SELECT id FROM {ANSWERS} ORDER BY id LIMIT 2)"""
"""Two for each answer that is stored, so that the table becomes smaller after many requests."""


class StoredAnswers:
    """The stored answers of the connection of a writer."""

    def __init__(self, session: GuestSession) -> None:
        self._session = session

    def missing(self, requests: Iterable[SqlRequest]) -> bool:
        """Return whether requests have keys, and the table does not exist. Raises `GuestProblem`."""
        return any(each.idempotency_key for each in requests) and self._session.row(_EXISTS) is None

    def create(self) -> None:
        """Create the table and commit, in a new transaction, and begin another one. Raises `GuestProblem`.

        A fleet cannot replicate a transaction of which a savepoint takes back a change of the schema.
        """
        for statement in (_CREATE, "commit", "begin immediate"):
            self._session.execute(statement)

    def run(self, request: SqlRequest, work: Callable[[SqlRequest], DoorResponse]) -> DoorResponse:
        """Run a request in the current transaction, or return the stored answer. Raises `GuestProblem`."""
        if not request.idempotency_key:
            return work(request)
        digest = sha256(repr((request.kind, request.statements)).encode("utf-8", "surrogatepass")).hexdigest()
        session = self._session
        if (stored := session.row(_FIND, request.idempotency_key)) is not None:
            if stored[0] != digest:
                raise GuestProblem(
                    "key-reused",
                    f"the idempotency key {request.idempotency_key!r} was used for another request",
                    "Use a new key for each write, and repeat a write with its own statements.",
                )
            return DoorResponse(200, stored[1])
        response = work(request)
        if len(response.body) > MAX_ANSWER:
            raise GuestProblem(
                "too-large",
                f"the answer to a write with an idempotency key has more than {MAX_ANSWER >> 10} KiB",
                "Return fewer rows.",
            )
        session.row(_INSERT, request.idempotency_key, digest, response.body)
        session.execute(_EXPIRE)
        return response
