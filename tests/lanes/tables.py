"""Shared tests of the tables libraries of three languages, on a real engine with the real Door.

The test programs of all libraries have the same routes.
"""

import asyncio
import gc
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import apsw

from doors.crypto.door import CryptoDoor
from doors.tables.door import TablesDoor
from engine.artifact import ComponentArtifact
from engine.door import DOMAIN, DoorContext
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Guest, Runner
from engine.wasm.outbound.door_calls import DoorBinding
from tests.lanes.workdir import compiles_fast
from tests.support.guest_client import Answer, Client

T = TypeVar("T")
SCHEMA = """
create table things (
    id integer primary key, i integer, r real, t text, b boolean, at timestamp, j json, d blob
);
create table users (
    id integer primary key, name text not null unique, age integer check (age < 200), born timestamp
);
"""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "build" / "tables.md"
ENDPOINT = {
    "SVC_TABLES_ENDPOINT": f"http://tables.{DOMAIN}",
    "SVC_CRYPTO_ENDPOINT": f"http://crypto.{DOMAIN}",
}


def program(lane: str) -> str:
    """Return the program of a language in the documentation."""
    (found,) = re.findall(rf"^```{lane}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


class Guests:
    """A component whose project has tables; `ask` runs it, one request at a time.

    `more` are variables for all requests.
    """

    def __init__(
        self,
        artifact: ComponentArtifact,
        lane: str,
        folder: Path,
        cache: Path,
        more: Mapping[str, str] = MappingProxyType({}),
        schema: str = SCHEMA,
    ) -> None:
        self._more = more
        self._artifact = artifact
        self._resource = Resource("api", lane, folder)  # type: ignore[arg-type]
        self._cache = cache
        self._place = DoorContext("test", folder / "tables", lambda entry: None)
        self._place.folder.mkdir(parents=True)
        with apsw.Connection(str(self._place.folder / "tables.db")) as connection:
            connection.execute(schema)
        connection.close()

    def rows(self, sql: str) -> list[Any]:
        """Query the database file directly."""
        connection = apsw.Connection(str(self._place.folder / "tables.db"))
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()

    def ask(self, *targets: str, environment: dict[str, str] = ENDPOINT, method: str = "GET") -> list[Answer]:
        async def requests(guest: Guest) -> list[Answer]:
            return [await Client().call(guest, target, method) for target in targets]

        return self._serve(requests, environment)

    def ask_while_locked(self, target: str) -> Answer:
        """Ask with a lock on the database that ends when the program sends the first part of the response."""
        lock = apsw.Connection(str(self._place.folder / "tables.db"))

        async def release() -> None:
            if lock.in_transaction:
                lock.execute("rollback")

        async def request(guest: Guest) -> Answer:
            await Client().call(guest, "/nulls")  # The first write needs the file alone.
            lock.execute("begin immediate")
            return await Client(pause=release).call(guest, target)

        return self._serve(request, ENDPOINT)

    def garbage(self, target: str) -> int:
        """Return how many objects of ten requests only the garbage collector frees."""

        async def requests(guest: Guest) -> int:
            await Client().call(guest, target)
            while gc.collect():
                pass
            for _ in range(10):
                await Client().call(guest, target)
            return gc.collect()

        async def rounds(guest: Guest) -> int:
            # On a busy machine, a slow read opens a session, which is closed when it is idle.
            for _ in range(20):
                if not (count := await requests(guest)):
                    break
            return count

        gc.disable()
        try:
            return self._serve(rounds, ENDPOINT)
        finally:
            gc.enable()

    def _serve(self, requests: Callable[[Guest], Awaitable[T]], environment: dict[str, str]) -> T:
        async def main() -> T:
            door = TablesDoor()
            tables = door.open(self._place)
            kind = CryptoDoor()
            crypto = kind.open(self._place)
            runner = Runner(self._cache)
            try:
                guest = await runner.guest(
                    self._resource,
                    self._artifact,
                    {**self._more, **environment},
                    fast=compiles_fast(self._artifact),
                    report=lambda line: None,
                    doors={
                        "tables": DoorBinding(tables, door.max_body),
                        "crypto": DoorBinding(crypto, kind.max_body),
                    },
                )
                return await requests(guest)
            finally:
                await runner.aclose()
                await tables.aclose()
                await crypto.aclose()

        return asyncio.run(main())

    def json(self, target: str, **options: Any) -> Any:
        """Return the JSON response of one request."""
        (answer,) = self.ask(target, **options)
        assert answer.report.outcome == "ok", (answer.report.detail, answer.lines)
        return json.loads(answer.body)


def values_of_every_type_round_trip(guests: Guests) -> None:
    """The program compares values in its own types and returns the differences."""
    different = guests.json("/types")
    assert different == [], different
    ((i, r, t, b, at, j, d, kind),) = guests.rows(
        "select i, r, t, b, at, j, hex(d), typeof(d) from things where id = 1"
    )
    assert (i, r, t, b) == (-(2**63), 1.5e300, 'ü"\\\n\0😀', 1)
    assert at == "2026-01-31T12:34:56.789Z"
    assert json.loads(j) == {"list": [1, 2.5, None], "text": "ü"}
    assert (d, kind) == ("00FF10", "blob")


def calls_leave_no_garbage_cycles(guests: Guests) -> None:
    """Cycles of calls would be collected together, for milliseconds in which nothing is served."""
    assert guests.garbage("/nulls") == 0


def null_values_round_trip(guests: Guests) -> None:
    different = guests.json("/nulls")
    assert different == [], different
    assert guests.rows("select i, r, t, b, at, j, d from things") == [(None,) * 7]


def parameters_are_numbered(guests: Guests) -> None:
    assert guests.json("/order") == [{"a": "first", "b": "second", "again": "first"}]


def arrays_have_columns_of_one_name(guests: Guests) -> None:
    """The program writes two things and joins them; the last value is whether its blob is bytes."""
    assert guests.json("/arrays") == [["id", "id", "x", "d"], [1, 2, "first", True]]


def parameter_text_is_never_parsed_as_sql(guests: Guests) -> None:
    assert guests.json("/hostile") == [{"name": "'; drop table users; --"}]
    assert guests.rows("select name from users") == [("'; drop table users; --",)]


def write_returns_changes_last_id_and_rows(guests: Guests) -> None:
    inserted, updated, returned = guests.json("/exec")
    assert inserted == {"changes": 1, "last_id": 7, "rows": []}
    assert updated["changes"] == 1 and updated["rows"] == []
    assert returned == {"changes": 1, "last_id": 8, "rows": [{"id": 8, "name": "bob"}]}


def statements_are_calls_of_the_trace(guests: Guests) -> None:
    (answer,) = guests.ask("/exec")
    calls = [(call.kind, call.name.split()[0], call.status, call.parent) for call in answer.calls]
    insert = ("sql", "insert", 200, -1)
    assert calls[:3] == [insert, ("sql", "update", 200, -1), insert]
    assert calls[3:] in ([], [insert])  # Go's program has one more.
    assert all(call.details and call.details["rows"] == 1 for call in answer.calls)
    assert all(0 < call.start_ns < call.start_ns + call.wall_ns for call in answer.calls)


def batch_is_atomic(guests: Guests) -> None:
    done, failed = guests.json("/batch")
    assert [each["changes"] for each in done[:2]] == [1, 1]
    assert done[2]["rows"] == [{"n": 2}]
    assert (failed["code"], failed["statement"]) == ("constraint", 1)
    assert guests.rows("select name from users order by id") == [("ada",), ("bob",)]


def options_are_members_of_the_request(guests: Guests) -> None:
    """The program repeats two writes with their keys, uses a key again and a long one, and reads stale."""
    execs, batches, (reused, long), names, count = guests.json("/options")
    ids = [{"changes": 1, "last_id": each, "rows": [{"id": each}]} for each in (1, 2, 3)]
    assert execs == [ids[0], ids[0]] and batches == [ids[1:], ids[1:]]
    assert (reused["code"], long["code"]) == ("key-reused", "bad-request")
    assert "'one' was used for another request" in reused["message"]
    assert "idempotency_key has 256 characters; the maximum is 255" in long["message"]
    assert names == [{"name": "ada"}, {"name": "bob"}, {"name": "eve"}]
    assert [each["rows"] for each in count] == [[{"n": 3}]]


def rejected_statement_returns_code_and_position(guests: Guests) -> None:
    syntax, unique, count, writes = guests.json("/errors")
    assert (syntax["code"], syntax["status"]) == ("sql-error", 400)
    assert "no such column: nme" in syntax["message"]
    assert syntax["position"] == 1 + "select nme".index("nme")
    assert (unique["code"], unique["status"], unique["constraint"]) == ("constraint", 409, "unique")
    assert "users.name" in unique["message"]
    assert count["code"] == "bad-parameters" and writes["code"] == "writes-in-query"


def value_that_no_column_holds_is_not_sent(guests: Guests, *words: str) -> None:
    messages = guests.json("/unfit")
    assert len(messages) == len(words)
    for message, word in zip(messages, words, strict=True):
        assert word in message, messages


def missing_endpoint_variable_is_reported(guests: Guests) -> None:
    (answer,) = guests.ask("/order", environment={})
    assert answer.report.outcome == "guest-failed"
    assert "SVC_TABLES_ENDPOINT is not set" in answer.report.detail


def password_is_hashed_and_verified(guests: Guests) -> None:
    """Use `password` of the guest library, which the tables of users need."""
    prefix, right, wrong, error = guests.json("/password")
    assert (prefix, right, wrong) == ("$argon2id$v=19$m=19456,t=2,p=1$", True, False)
    assert "the hash is not an Argon2 hash in the PHC format" in error


CASES = (
    values_of_every_type_round_trip,
    calls_leave_no_garbage_cycles,
    null_values_round_trip,
    parameters_are_numbered,
    arrays_have_columns_of_one_name,
    parameter_text_is_never_parsed_as_sql,
    write_returns_changes_last_id_and_rows,
    statements_are_calls_of_the_trace,
    batch_is_atomic,
    options_are_members_of_the_request,
    rejected_statement_returns_code_and_position,
    missing_endpoint_variable_is_reported,
    password_is_hashed_and_verified,
)
