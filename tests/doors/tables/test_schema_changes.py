"""Schema changes beneath the Door, by migrations or other processes: answers stay correct."""

import asyncio

from tests.doors.tables.asking import Answer, Tables


def test_the_next_statement_sees_a_new_column(tables: Tables) -> None:
    tables.exec("insert into users (name) values ('Ada')")
    assert list(tables.query("select * from users").rows[0]) == ["id", "name", "age"]
    tables.schema("alter table users add column email text default 'none'")
    assert list(tables.query("select * from users").rows[0]) == ["id", "name", "age", "email"]
    answer = tables.exec("update users set age = 1 returning *")
    assert answer.rows == [{"id": 1, "name": "Ada", "age": 1, "email": "none"}]


def test_a_column_that_takes_another_s_place_has_its_own_name_and_type(tables: Tables) -> None:
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


def test_a_type_that_changed_is_noticed(tables: Tables) -> None:
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


def test_a_table_that_was_dropped_is_gone_and_one_that_was_made_is_there(tables: Tables) -> None:
    assert tables.query("select * from users").rows == []
    tables.schema("drop table users", "create table people (name text)")
    for answer in (tables.query("select * from users"), tables.exec("delete from users")):
        assert (answer.status, answer.document["detail"]) == (400, "no such table: users")
    assert tables.exec("insert into people values ('Ada')").status == 200
    assert tables.query("select * from people").rows == [{"name": "Ada"}]


def test_what_was_an_error_is_tried_again(tables: Tables) -> None:
    sql = "select name from people"
    assert tables.query(sql).code == "sql-error"
    tables.schema("create table people (name text)")
    assert tables.query(sql).rows == []


def test_a_table_dropped_while_it_is_read_is_read_to_its_end_or_not_at_all(tables: Tables) -> None:
    owner = tables.owner()
    owner.execute(
        "insert into users (name) with recursive n(i) as (select 1 union all select i+1 from n where i<9000)"
        " select 'user ' || i from n"
    )
    tables.query("select 1 as warm")

    async def read_and_drop() -> list[Answer]:
        reads = [
            asyncio.ensure_future(tables.sending("/v1/query", b'{"sql": "select * from users"}'))
            for _ in range(8)
        ]
        await asyncio.sleep(0)
        owner.execute("drop table users")
        return [await each for each in reads]

    for answer in tables.run(read_and_drop()):
        gone = answer.status == 400 and answer.document["detail"] == "no such table: users"
        assert gone or len(answer.rows) == 9000
    owner.close()


def test_readers_and_writers_keep_right_while_the_schema_changes_all_the_time(tables: Tables) -> None:
    tables.schema("create table t (id integer primary key, a text)")
    tables.exec("insert into t (a) values ('x')")
    owner = tables.owner()

    async def change() -> list[Answer]:
        answers = []
        for number in range(60):
            owner.execute(f"alter table t add column c{number} integer not null default {number}")
            answers.append(await tables.sending("/v1/query", b'{"sql": "select * from t"}'))
            answers.append(await tables.executing("update t set a = a returning *"))
        return answers

    for index, answer in enumerate(tables.run(change())):
        number = index // 2
        expected = {"id": 1, "a": "x"} | {f"c{n}": n for n in range(number + 1)}
        assert answer.rows == [expected]
    owner.close()
