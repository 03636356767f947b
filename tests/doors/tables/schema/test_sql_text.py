from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doors.tables.sqlite.errors import Connection, TablesError, rows
from doors.tables.sqlite.tokens import ParsedStatement, StatementTooLong, parse, statements

SCRIPT = """-- hello;
create table a(x default ';'); /* ; */ insert into a values ('it''s;
');
create temp /* x */ trigger t after insert on a begin
  select case when 1 then 2 end; update a set x=';' ; /* x */ end;
select [a;b], "c;""d", `;`; select 1-2/3 --foo;
; ;;
/* only a comment */;
select 'unterminated;"""
FOUND = [
    ParsedStatement(2, "create table a(x default ';')"),
    ParsedStatement(2, "insert into a values ('it''s;\n')"),
    ParsedStatement(
        4,
        "create temp /* x */ trigger t after insert on a begin\n"
        "  select case when 1 then 2 end; update a set x=';' ; /* x */ end",
    ),
    ParsedStatement(6, 'select [a;b], "c;""d", `;`'),
    ParsedStatement(6, "select 1-2/3 --foo;"),
    ParsedStatement(9, "select 'unterminated;"),
]


def test_script_is_split_into_statements() -> None:
    assert list(statements([SCRIPT], 10_000)) == FOUND


@given(st.lists(st.integers(0, len(SCRIPT)), max_size=30).map(sorted))
def test_script_split_is_independent_of_chunks(cuts: list[int]) -> None:
    edges = [0, *cuts, len(SCRIPT)]
    pieces = [SCRIPT[start:end] for start, end in pairwise(edges)]
    assert list(statements(pieces, 10_000)) == FOUND


def test_unterminated_statement_over_limit_raises() -> None:
    with pytest.raises(StatementTooLong) as exc_info:
        list(statements(["select 1;\nselect '"] + ["x" * 1000] * 1000, 100_000))
    assert exc_info.value.line == 1


TABLES = [
    "create table t (a)",
    "create table [t] ('a' text, \"b \"\" c\" varchar(20) not null on conflict ignore default 'x, (y', `d`)",
    "create table t (a integer constraint k primary key autoincrement, b int default -1 unique)",
    "create table t (a default (1 + (2)), b check (b in (1, 2) and b not null) null, c collate nocase)",
    "create table t (a references t(b) on delete set null on update set default deferrable initially deferred"
    " not null, b unique)",
    "create table t (a, b as (a || ',') virtual, c text generated always as (a + 1) stored not null)",
    "create table t (a int, -- one, two)\n b /* ) */ int, primary key (a, b), check (a <> b), unique (b),\n"
    " foreign key (a) references t) without rowid, strict",
]


@pytest.mark.parametrize("sql", TABLES)
def test_parsed_definition_round_trips_to_same_table(sql: str) -> None:
    def shape(text: str) -> object:
        database = Connection(":memory:")
        database.execute(text)
        queries = ["pragma table_xinfo(t)", "pragma foreign_key_list(t)", "pragma index_list(t)"]
        return [
            rows(database, query) for query in [*queries, "select wr, strict from pragma_table_list('t')"]
        ]

    second = parse(sql).sql("t")
    assert shape(second) == shape(sql)
    assert parse(second).sql("t") == second


def test_parse_of_unsupported_definition_raises() -> None:
    with pytest.raises(TablesError, match="cannot parse"):
        parse("create table t as select 1")
