import pytest

from tests.doors.tables.tables_door import Tables


@pytest.mark.parametrize(
    ("sql", "params", "row"),
    [
        ("select $2 as a, $1 as b", (1, 2), {"a": 2, "b": 1}),
        ("select $1 as a, $1 as b, $2 as c", (1, 2), {"a": 1, "b": 1, "c": 2}),
        ("select $3 - $1 * $2 as a, $3 as b", (2, 3, 10), {"a": 4, "b": 10}),
        ("select '$9' as a, $1 as b -- $7", (1,), {"a": "$9", "b": 1}),
        ("select ?2 as a, ?1 as b, $2 as c", (1, 2), {"a": 2, "b": 1, "c": 2}),
        ("select ? as a, ? as b", (1, 2), {"a": 1, "b": 2}),
        (
            'select \'?\' as a, ? as b, "?" as c from (select 3 as "?") -- ?\n /* ? */',
            (1,),
            {"a": "?", "b": 1, "c": 3},
        ),
        ("select ? as a, ?1 as b, ? as c", (1, 2), {"a": 1, "b": 1, "c": 2}),
        ("select ?3 as a, ? as b, ?1 as c", (1, 2, 3, 4), {"a": 3, "b": 4, "c": 1}),
        ("select $1 as a, ? as b, $1 as c", (1, 2), {"a": 1, "b": 2, "c": 1}),
        ("select ?5 as a", (1, 2, 3, 4, 5), {"a": 5}),
        (
            "select $10 as j,$9 as i,$8 as h,$7 as g,$6 as f,$5 as e,$4 as d,$3 as c,$2 as b,$1 as a",
            tuple(range(10)),
            dict(zip("jihgfedcba", range(9, -1, -1), strict=True)),
        ),
    ],
)
def test_numbered_parameters_bind_by_position(
    tables: Tables, sql: str, params: tuple[int, ...], row: dict[str, object]
) -> None:
    assert tables.query(sql, *params).rows == [row]
    assert tables.query(sql, *params).rows == [row]


@pytest.mark.parametrize(
    ("sql", "params", "detail"),
    [
        ("select $1 as a", (), "the statement has 1 parameter, but the request has no values"),
        ("select $1 as a, $2 as b", (1,), "the statement has 2 parameters, but the request has 1 value"),
        ("select 1 as a", (1, 2), "the statement has no parameters, but the request has 2 values"),
        ("select $1 as a, $3 as c", (1, 2, 3), "the statement has $3 but not $2"),
        ("select ? as a, ? as b", (1,), "the statement has 2 parameters, but the request has 1 value"),
        ("select ? as a, $1 as b", (1,), "the statement mixes ? and $1"),
        ("select $2 as a, ? as b", (1, 2), "the statement mixes ? and $2"),
        ("select ? as a, :name as b", (1, 2), ":name is not a parameter"),
        ("select $0 as a", (1,), "$0 is not a parameter"),
        ("select $01 as a", (1,), "$01 is not a parameter"),
        ("select $1::text as a", (1,), "$1::text is not a parameter"),
        ("select :name as a", (1,), ":name is not a parameter"),
        ("select @1x as a", (1,), "@1x is not a parameter"),
        ("select $99999 as a", (1,), "the statement has $99999 but not $1"),
        ("select $1 as a", (2**63,), "$1 is an integer of more than 64 bits"),
        ("select $2 as b, $1 as a", (True, -(2**63) - 1), "$2 is an integer of more than 64 bits"),
        ("select $2 as b, $1 as a", ("\ud800", 1), "$1 has half of a surrogate pair"),
        ("select $1 as a", ({"base64": "?"},), "$1 is not base64"),
        ("select $2 as a, $1 as b", (1, {"base64": 7}), "$2 is not base64"),
    ],
)
def test_invalid_parameters_are_refused(
    tables: Tables, sql: str, params: tuple[object, ...], detail: str
) -> None:
    for answer in (tables.query(sql, *params), tables.exec(sql, *params)):
        assert (answer.status, answer.code) == (400, "bad-parameters")
        assert answer.document["detail"].startswith(detail)


def test_parameter_number_over_sqlite_limit_is_sql_error(tables: Tables) -> None:
    assert tables.query("select ?99999 as a", 1).code == "sql-error"


@pytest.mark.parametrize("sql", ["\0", "select 1 as a\0", "select 1 as a -- \0", ";\0", "select 1 as a, \0"])
def test_nul_in_sql_is_refused_with_position(tables: Tables, sql: str) -> None:
    for answer in (tables.query(sql), tables.exec(sql), tables.batch((sql,))):
        assert (answer.status, answer.code) == (400, "sql-error")
        assert answer.document["detail"] == "the SQL has a NUL character"
        assert answer.document["position"] == len(sql)


def test_lone_surrogate_in_sql_is_refused_with_position(tables: Tables) -> None:
    answer = tables.query("select '\udc00' as a")
    assert (answer.code, answer.document["position"]) == ("sql-error", 9)


def test_parameter_value_is_not_executed_as_sql(tables: Tables) -> None:
    lie = "x'); delete from users; --"
    tables.exec("insert into users (name) values ($1)", lie)
    assert tables.query("select name from users").rows == [{"name": lie}]
