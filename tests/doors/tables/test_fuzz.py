"""Random statements, batches and bodies: each gets a response, and the schema is unchanged."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doors.tables.guest.plan import ROW_FORMS
from doors.tables.guest.problem import KINDS
from tests.doors.tables.tables_door import Answer, Tables
from tests.support.examples import examples

TEXT = """
select insert into update delete from where set values users name id age returning on conflict do nothing
with recursive as union all create table drop alter add column index pragma attach begin commit rollback
savepoint release vacuum explain query plan sqlite_master pragma_table_info users.* * ( ) , ; -- /* */ '
" ` [ ] $1 $2 $0 ? ?1 :a @b 1 2.5 x'00' null now() count(*) json_each randomblob(9) load_extension('x') =
< || is not temp trigger view or replace ignore fail abort limit offset order by group having cast over
partition window filter "sqlite_schema" table_info ('users')
"""
WORDS = TEXT.split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
SQL = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30)
STATEMENT = st.fixed_dictionaries(
    {"sql": SQL},
    optional={
        "params": st.lists(JSON, max_size=3),
        "rows": st.sampled_from([*ROW_FORMS, "rows"]),
        "values": st.sampled_from(["typed", "stored", None]),
    },
)
SETTINGS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=examples(100),
)


def schema(tables: Tables) -> list[Any]:
    owner = tables.owner()
    rows = owner.execute("select type, name, tbl_name, sql from sqlite_schema order by 1, 2").fetchall()
    owner.close()
    return rows


def assert_answered(answer: Answer) -> None:
    assert answer.status == 200 or KINDS[answer.code].status == answer.status
    assert answer.status < 500, answer.text


@SETTINGS
@given(st.sampled_from(["/v1/query", "/v1/exec"]), STATEMENT)
def test_random_statement_gets_valid_response_and_leaves_schema(
    tables: Tables, path: str, document: dict[str, Any]
) -> None:
    before = schema(tables)
    assert_answered(tables.send(path, json.dumps(document).encode()))
    assert schema(tables) == before
    assert tables.query("select 1 as a").rows == [{"a": 1}]


@SETTINGS
@given(st.lists(STATEMENT, max_size=4))
def test_random_batch_is_atomic(tables: Tables, statements: list[dict[str, Any]]) -> None:
    before = tables.query("select count(*) as n, max(id) as m from users").rows
    answer = tables.send("/v1/batch", json.dumps({"statements": statements}).encode())
    assert_answered(answer)
    if answer.status != 200:
        assert tables.query("select count(*) as n, max(id) as m from users").rows == before
    else:
        assert len(answer.document["results"]) == len(statements)


@SETTINGS
@given(st.sampled_from(["/v1/query", "/v1/exec", "/v1/batch"]), st.binary(max_size=60) | JSON.map(json.dumps))
def test_random_body_gets_valid_response(tables: Tables, path: str, body: bytes | str) -> None:
    answer = tables.send(path, body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass"))
    assert_answered(answer)
