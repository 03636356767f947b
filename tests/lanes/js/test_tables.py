"""`tables` of `@svc/guest`, against the real Door."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lanes import tables
from tests.lanes.js.programs import Programs
from tests.lanes.js.sources import MODES, Sources
from tests.lanes.tables import Guests

pytestmark = pytest.mark.slow
NEITHER = 'export default { fetch: () => new Response("hello") };\n'


@pytest.fixture(params=MODES)
def guests(request: pytest.FixtureRequest, programs: Programs, tmp_path: Path, cache: Path) -> Guests:
    return Guests(programs.artifact("tables", request.param), "js", tmp_path, cache, {"PROGRAM": "tables"})


CASES = [case for case in tables.CASES if case is not tables.missing_endpoint_variable_is_reported]


@pytest.mark.parametrize("case", CASES)
def test_tables(guests: Guests, case: Callable[[Guests], None]) -> None:
    case(guests)


def test_value_that_no_column_holds_is_rejected_before_sending(guests: Guests) -> None:
    tables.value_that_no_column_holds_is_not_sent(
        guests,
        "parameter $1 is undefined",
        "parameter $2 is NaN",
        "parameter $1 is Infinity",
        "parameter $1 is () => 1",
        "the SQL is of type undefined",
        "tables.sql",
    )


def test_unknown_option_is_named(guests: Guests) -> None:
    message = "TypeError: there is no option stale_ok; available: idempotencyKey, staleOk"
    assert guests.json("/unknown-option") == message


def test_writes_that_begin_in_one_turn_wait_together(guests: Guests) -> None:
    (answer,) = guests.ask("/together")
    assert sorted(json.loads(answer.body)) == [1, 2, 3]
    first, second, third = sorted(answer.calls, key=lambda call: call.start_ns)
    assert second.start_ns < first.start_ns + first.wall_ns and third.status == 200
    assert guests.rows("select count(*) from users") == [(3,)]


def test_clock_of_a_program_sees_the_time_of_a_write(guests: Guests) -> None:
    """The clock of an instance is that of its last call of the host, or some nanoseconds later."""
    assert guests.json("/duration") > 0.01


def test_writes_of_a_program_that_computes_in_a_worker_thread_run_once(guests: Guests) -> None:
    assert guests.json("/after-loop") == [1, "constraint", 1]


def test_stream_continues_while_a_write_waits(guests: Guests) -> None:
    answer = guests.ask_while_locked("/waiting")
    assert answer.chunks == [b"first ", b"1 1"], (answer.report, answer.lines)
    assert guests.rows("select name from users") == [("ada",)]


def test_d1_has_the_results_of_workers(guests: Guests) -> None:
    results = guests.json("/d1")
    errors = results.pop("errors")
    assert results == {
        "insert": [True, [], 1, 1, 1, True, "number"],
        "returning": [[{"id": 2, "name": "bob"}, {"id": 3, "name": "eve"}], 2, 3, 2],
        "all": [{"name": "ada", "age": 36}, {"name": "bob", "age": None}, {"name": "eve", "age": None}],
        "raw": [
            [["ada", 36], ["bob", None], ["eve", None]],
            [["name", "age"], ["ada", 36], ["bob", None], ["eve", None]],
        ],
        "first": [{"name": "ada", "age": 36}, "ada", None, None],
        "missing": "Error: D1_COLUMN_NOTFOUND: the result has no column nope",
        "with": "zoe",
        "join": [{"id": 2, "name": "bob"}, [["id", "id", "name"], [1, 2, "bob"]]],
        "stored": [
            {"b": 1, "j": '{"a":1}', "d": [0, 255, 16], "part": [255, 16], "at": None},
            [[1, '{"a":1}', [0, 255, 16], [255, 16], None]],
        ],
        "batch": [[[], 1], [[{"id": 5}], 0], [[{"name": "ada", "age": 36}], 0]],
        "exec": 2,
        "schema": [["things"], ["users"]],
    }
    unique, ddl, begin, *others = errors
    assert (unique["constraint"], unique["statement"]) == ("unique", 1)
    assert "migrations (tables/*.sql)" in ddl["message"] and "batch" in begin["message"]
    assert ["undefined" in others[0], "d1.prepare" in others[1], "svc tables export" in others[2]] == [
        True
    ] * 3
    assert guests.rows("select count(*) from users where name = 'new'") == [(0,)]


def test_bundle_without_tables_excludes_the_library(sources: Sources) -> None:
    sources.write("index.js", NEITHER)
    without_tables = sources.build()
    sources.write("index.js", f"import {{ log }} from '@svc/guest';\n{NEITHER}")
    with_library = sources.build()
    assert without_tables.script is not None and with_library.script is not None
    assert "/v1/query" not in with_library.script


def test_program_of_the_documentation_answers(sources: Sources, tmp_path: Path, cache: Path) -> None:
    sources.write("index.js", tables.program("js"))
    added, again = Guests(sources.build(), "js", tmp_path / "guest", cache).ask("/?name=ada", "/?name=ada")
    (row,) = json.loads(added.body)
    assert (row["id"], row["name"]) == (1, "ada") and row["born"].endswith("Z")
    assert again.status == 409
