"""Schema changes beneath the Door, by migrations or other processes: answers stay correct."""

import asyncio

from tests.doors.tables.tables_door import Answer, Tables


def test_next_statement_sees_added_column(tables: Tables) -> None:
    tables.exec("insert into users (name) values ('Ada')")
    assert list(tables.query("select * from users").rows[0]) == ["id", "name", "age"]
    tables.schema("alter table users add column email text default 'none'")
    assert list(tables.query("select * from users").rows[0]) == ["id", "name", "age", "email"]
    answer = tables.exec("update users set age = 1 returning *")
    assert answer.rows == [{"id": 1, "name": "Ada", "age": 1, "email": "none"}]


def test_swapped_columns_have_their_own_name_and_type(tables: Tables) -> None:
    tables.schema("create table flags (id integer primary key, a boolean, b integer)")
    tables.exec("insert into flags (a, b) values (true, 1)")
    assert tables.query("select * from flags").rows == [{"id": 1, "a": True, "b": 1}]
    assert tables.exec("update flags set b = 1 returning *").rows == [{"id": 1, "a": True, "b": 1}]
    tables.schema(
        "alter table flags rename column a to c",
        "alter table flags rename column b to a",
        "alter table flags rename column c to b",
    )
    assert tables.query("select * from flags").rows == [{"id": 1, "b": True, "a": 1}]
    assert tables.exec("update flags set b = 1 returning *").rows == [{"id": 1, "b": True, "a": 1}]


def test_changed_column_type_is_applied(tables: Tables) -> None:
    tables.schema("create table flags (a integer)")
    tables.exec("insert into flags values (1)")
    assert tables.query("select a from flags").rows == [{"a": 1}]
    tables.schema(
        "create table new (a boolean)",
        "insert into new select * from flags",
        "drop table flags",
        "alter table new rename to flags",
    )
    assert tables.query("select a from flags").rows == [{"a": True}]


def test_dropped_table_is_missing_and_created_table_is_usable(tables: Tables) -> None:
    assert tables.query("select * from users").rows == []
    tables.schema("drop table users", "create table people (name text)")
    for answer in (tables.query("select * from users"), tables.exec("delete from users")):
        assert (answer.status, answer.document["detail"]) == (400, "no such table: users")
    assert tables.exec("insert into people values ('Ada')").status == 200
    assert tables.query("select * from people").rows == [{"name": "Ada"}]


def test_failed_statement_works_after_table_is_created(tables: Tables) -> None:
    sql = "select name from people"
    assert tables.query(sql).code == "sql-error"
    tables.schema("create table people (name text)")
    assert tables.query(sql).rows == []


def test_read_of_dropped_table_is_complete_or_fails(tables: Tables) -> None:
    owner = tables.owner()
    owner.execute(
        "insert into users (name) with recursive n(i) as (select 1 union all select i+1 from n where i<9000)"
        " select 'user ' || i from n"
    )
    tables.query("select 1 as warm")

    async def read_and_drop() -> list[Answer]:
        reads = [
            asyncio.ensure_future(tables.send_async("/v1/query", b'{"sql": "select * from users"}'))
            for _ in range(8)
        ]
        await asyncio.sleep(0)
        owner.execute("drop table users")
        return [await each for each in reads]

    for answer in tables.run(read_and_drop()):
        dropped = answer.status == 400 and answer.document["detail"] == "no such table: users"
        assert dropped or len(answer.rows) == 9000
    owner.close()


def test_results_are_correct_during_repeated_schema_changes(tables: Tables) -> None:
    tables.schema("create table t (id integer primary key, a text)")
    tables.exec("insert into t (a) values ('x')")
    owner = tables.owner()

    async def change() -> list[Answer]:
        answers = []
        for number in range(60):
            owner.execute(f"alter table t add column c{number} integer not null default {number}")
            answers.append(await tables.send_async("/v1/query", b'{"sql": "select * from t"}'))
            answers.append(await tables.exec_async("update t set a = a returning *"))
        return answers

    for index, answer in enumerate(tables.run(change())):
        number = index // 2
        expected = {"id": 1, "a": "x"} | {f"c{n}": n for n in range(number + 1)}
        assert answer.rows == [expected]
    owner.close()
