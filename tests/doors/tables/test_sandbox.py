"""SQL of guests is limited to reads and writes of rows."""

import pytest

from tests.doors.tables.tables_door import Tables


def assert_refused(tables: Tables, sql: str, code: str, hint: str = "") -> None:
    for answer in (tables.query(sql), tables.exec(sql), tables.batch((sql,))):
        assert answer.code == code, (sql, answer.text)
        assert hint in answer.document.get("hint", "")


@pytest.mark.parametrize(
    "sql",
    [
        "create table evil (a)",
        "create temp table evil (a)",
        "create table evil as select * from users",
        "create index evil on users (name)",
        "create unique index evil on users (age)",
        "create view evil as select 1",
        "create temp view evil as select 1",
        "create trigger evil after insert on users begin delete from users; end",
        "create temp trigger evil after insert on users begin delete from users; end",
        "create virtual table evil using fts5(a)",
        "create virtual table evil using dbstat",
        "drop table users",
        "drop table if exists users",
        "alter table users rename to persons",
        "alter table users add column evil text",
        "alter table users drop column age",
        "reindex users",
        "reindex",
        "analyze",
        "/* select */ drop table users",
    ],
)
def test_schema_changes_are_refused(tables: Tables, sql: str) -> None:
    for answer in (tables.query(sql), tables.exec(sql), tables.batch((sql,))):
        assert (answer.status, answer.code) == (403, "not-allowed"), answer.text
        assert "tables/*.sql" in answer.document["hint"]
    assert tables.query("select count(*) as n from users").rows == [{"n": 0}]


@pytest.mark.parametrize("sql", ["vacuum", "VACUUM main", "vacuum into 'evil.db'"])
def test_vacuum_is_refused(tables: Tables, sql: str) -> None:
    for answer in (tables.query(sql), tables.exec(sql), tables.batch((sql,))):
        assert (answer.status, answer.code) == (403, "not-allowed"), answer.text
        assert "VACUUM" in answer.document["detail"] and "svc tables export" in answer.document["hint"]


@pytest.mark.parametrize(
    "sql",
    [
        "insert into sqlite_master values (1, 2, 3, 4, 5)",
        "update sqlite_master set sql = ''",
        "delete from sqlite_schema",
    ],
)
def test_writes_to_sqlite_schema_are_refused(tables: Tables, sql: str) -> None:
    for answer in (tables.query(sql), tables.exec(sql), tables.batch((sql,))):
        assert answer.code in ("not-allowed", "sql-error")
    assert tables.query("select count(*) as n from users").rows == [{"n": 0}]


@pytest.mark.parametrize(
    "sql",
    [
        "pragma journal_mode = delete",
        "pragma user_version",
        "pragma foreign_keys = off",
        "PRAGMA writable_schema = on",
        "pragma database_list",
        "pragma table_info",
        "pragma table_list",
        "pragma pragma_list",
        "pragma foreign_key_check(users)",
        "explain pragma user_version",
    ],
)
def test_pragmas_are_refused(tables: Tables, sql: str) -> None:
    assert_refused(tables, sql, "not-allowed", "svc tables show")


@pytest.mark.parametrize("sql", ["attach 'x.db' as x", "attach ':memory:' as x", "detach main"])
def test_attach_and_detach_are_refused(tables: Tables, sql: str) -> None:
    assert_refused(tables, sql, "not-allowed", "only the tables of its own project")


@pytest.mark.parametrize(
    "sql",
    [
        "begin",
        "begin immediate",
        "commit",
        "rollback",
        "end",
        "savepoint request",
        "release request",
        "rollback to x",
    ],
)
def test_transaction_statements_are_refused(tables: Tables, sql: str) -> None:
    tables.query("select 1 as a")
    tables.exec("insert into users (name) values ('a')")
    assert_refused(tables, sql, "not-allowed", "/v1/batch")
    assert tables.query("select count(*) as n from users").rows == [{"n": 1}]


@pytest.mark.parametrize(
    "sql",
    [
        "select (select count(*) from sqlite_temp_master) as n",
        "select * from sqlite_sequence",
        "pragma table_info(_svc_notes)",
        "pragma main.table_xinfo('_SVC_notes')",
        "pragma index_info(sqlite_autoindex__svc_notes_1)",
        "pragma table_list(_svc_notes)",
        "select * from pragma_table_list",
        "select * from pragma_foreign_key_check",
        "select * from _svc_notes",
        "select count(*) from _SVC_notes",
        "delete from _svc_notes",
        "insert into _svc_notes values (1)",
        "insert into users (name) select note from _svc_notes",
        "select * from pragma_database_list",
        "select * from pragma_module_list()",
        "select * from dbstat",
        "select count(*) from dbstat",
    ],
)
def test_internal_tables_are_refused(tables: Tables, sql: str) -> None:
    tables.schema(
        "create table _svc_notes (table_name, column_name, note unique)",
        "create table counted (id integer primary key autoincrement)",
    )
    for answer in (tables.query(sql), tables.exec(sql)):
        assert answer.code in ("not-allowed", "writes-in-query"), answer.text
        assert answer.code == "writes-in-query" or "guests cannot use" in answer.document["detail"]
    assert tables.exec(sql).code == "not-allowed"


@pytest.mark.parametrize(
    "sql",
    [
        "select load_extension('evil')",
        "select LOAD_EXTENSION('evil', 'main')",
        "select fts3_tokenizer('simple')",
        "select sqlite_source_id()",
        "select sqlite_compileoption_get(0)",
        "insert into users (name) values (load_extension('evil'))",
    ],
)
def test_unsafe_functions_are_refused(tables: Tables, sql: str) -> None:
    answer = tables.exec(sql)
    assert (answer.status, answer.code) == (403, "not-allowed")
    assert "guests cannot" in answer.document["detail"]


@pytest.mark.parametrize(
    "sql",
    [
        "select readfile('/etc/passwd')",
        "select writefile('evil', 'x')",
        "select edit('x')",
        "select * from fsdir('.')",
        "select * from csv",
    ],
)
def test_file_functions_do_not_exist(tables: Tables, sql: str) -> None:
    assert tables.query(sql).code == "sql-error"


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("select 1 as a; select 2 as b", 16),
        ("select 1 as a; drop table users", 16),
        ("select 1 as a;;; -- more\n /* and more */ delete from users", 42),
        ("insert into users (name) values ('x'); delete from users", 40),
        ("select ';' as a; x", 18),
        ("select 1 as a; \0", 16),
    ],
)
def test_second_statement_is_refused_before_first_runs(tables: Tables, sql: str, position: int) -> None:
    for answer in (tables.query(sql), tables.exec(sql)):
        assert answer.code in ("more-than-one-statement", "writes-in-query", "sql-error"), answer.text
        if answer.code == "more-than-one-statement":
            assert answer.document["position"] == position
    assert tables.query("select * from users").rows == []


@pytest.mark.parametrize(
    "sql",
    [
        "select 1 as a;",
        "select 1 as a; ; ;",
        "select 1 as a -- one; two",
        "select 1 as a; -- select 2",
        "select 1 as a; /* select 2 */ ;",
        "select 1 as a; /* unfinished",
        "-- first\nselect 1 as a",
        "; select 1 as a",
        "select 1 as a;" + "-" * 10_000,
        "select 1 as a" + "\n" * 10_000,
    ],
)
def test_trailing_comments_and_semicolons_are_accepted(tables: Tables, sql: str) -> None:
    assert tables.query(sql).rows == [{"a": 1}]


@pytest.mark.parametrize("sql", ["", " ", ";", "-- nothing", "/* nothing", "\n;\n"])
def test_empty_statement_is_refused(tables: Tables, sql: str) -> None:
    assert_refused(tables, sql, "sql-error")


@pytest.mark.parametrize(
    "sql",
    [
        "insert into users (name) values ('x')",
        "insert into users (name) values ('x') returning id",
        "update users set name = 'x'",
        "delete from users",
        "replace into users (name) values ('x')",
        "with x as (select 1) delete from users",
        "explain delete from users",
    ],
)
def test_write_in_query_is_refused_with_hint(tables: Tables, sql: str) -> None:
    for _ in range(2):
        answer = tables.query(sql)
        assert (answer.status, answer.code) == (400, "writes-in-query")
        assert "/v1/exec" in answer.document["hint"]
    assert tables.query("select * from users").rows == []


def test_double_quoted_text_is_identifier(tables: Tables) -> None:
    assert tables.query('select "stranger" as a').document["detail"].startswith("no such column: ")


def test_default_with_randomblob_works(tables: Tables) -> None:
    tables.schema("create table tokens (id integer primary key, t text default (hex(randomblob(8))))")
    row = tables.exec("insert into tokens default values returning t").rows[0]
    assert len(row["t"]) == 16


def test_schema_triggers_run_on_guest_writes(tables: Tables) -> None:
    tables.schema(
        "create table log (id integer primary key autoincrement, what text)",
        "create trigger t after insert on users begin insert into log (what) values (new.name || now()); end",
    )
    tables.exec("insert into users (name) values ('Ada')")
    assert tables.query("select count(*) as n from log where what like 'Ada2%'").rows == [{"n": 1}]


def test_explain_query_plan_is_allowed(tables: Tables) -> None:
    rows = tables.query("explain query plan select * from users where name = $1", "x").rows
    assert "INDEX" in rows[0]["detail"]
