"""Concurrent writes in shared transactions: isolation of failures, order, limits and waiting."""

import asyncio

import pytest

from doors.tables.guest import writer
from tests.doors.tables.tables_door import Answer, Tables

FOREVER = "with recursive n(i) as (select 1 union all select i + 1 from n)"


def exec_together(tables: Tables, *statements: str) -> list[Answer]:
    """Send statements at once, so that they share a transaction."""

    async def exec_all() -> list[Answer]:
        return await asyncio.gather(*(tables.exec_async(sql) for sql in statements))

    tables.query("select 1 as warm")
    answers: list[Answer] = tables.run(exec_all())
    return answers


def names(tables: Tables) -> list[str]:
    return [row["name"] for row in tables.query("select name from users order by id").rows]


def insert(name: str) -> str:
    return f"insert into users (name) values ('{name}')"


def test_concurrent_writes_are_all_stored(tables: Tables) -> None:
    answers = exec_together(tables, *(insert(f"u{i}") for i in range(500)))
    assert {answer.status for answer in answers} == {200}
    assert sorted(answer.document["last_id"] for answer in answers) == list(range(1, 501))
    assert len(names(tables)) == 500


def test_concurrent_writes_are_stored_in_request_order(tables: Tables) -> None:
    exec_together(tables, *(insert(f"u{i}") for i in range(200)))
    assert names(tables) == [f"u{i}" for i in range(200)]


@pytest.mark.parametrize(
    "failing",
    [
        insert("a"),
        "insert or rollback into users (name) values ('new'), ('a')",
        "insert or fail into users (name) values ('new'), ('a')",
        "insert or abort into users (name) values ('new'), ('a')",
        "insert into users (name) values ('new'), (null)",
        f"insert into users (name) {FOREVER} select 'u' || i from n limit 10001 returning name",
        "insert into nowhere values (1)",
        "insert into users",
        "delete from users where id = $1",
        "create table evil (a)",
        "rollback",
        "commit",
    ],
)
def test_failed_write_does_not_undo_others_in_shared_transaction(tables: Tables, failing: str) -> None:
    answers = exec_together(tables, insert("a"), insert("b"), failing, insert("c"), insert("d"))
    assert [answer.status == 200 for answer in answers] == [True, True, False, True, True]
    assert names(tables) == ["a", "b", "c", "d"]
    assert [answers[i].document["last_id"] for i in (0, 1, 3, 4)] == [1, 2, 3, 4]


def test_single_write_that_fails_half_way_leaves_nothing(tables: Tables) -> None:
    tables.schema(
        "create table seen (name text)",
        "create trigger refuse after insert on users when new.name = 'bad'"
        " begin insert into seen values (new.name); select raise(fail, 'no'); end",
    )
    for failing in ("insert into users (name) values ('good'), ('bad')", insert("bad")):
        answers = exec_together(tables, insert("a"), failing, insert("b"))
        assert [answer.status == 200 for answer in answers] == [True, False, True]
        assert tables.query("select * from seen").rows == []
        assert names(tables) == ["a", "b"]
        tables.exec("delete from users")
        assert tables.exec(failing).status != 200
        assert names(tables) == []


def test_insert_or_ignore_and_or_replace_follow_sqlite(tables: Tables) -> None:
    answers = exec_together(
        tables,
        insert("a"),
        "insert or ignore into users (name) values ('a')",
        "insert or replace into users (id, name, age) values (9, 'a', 5)",
    )
    assert [answer.document["changes"] for answer in answers] == [1, 0, 1]
    assert tables.query("select * from users").rows == [{"id": 9, "name": "a", "age": 5}]


def test_timed_out_write_does_not_undo_concurrent_writes(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_SECONDS", 0.3)
    endless = f"insert into users (name) {FOREVER} select 'u' || i from n"
    answers = exec_together(tables, insert("a"), endless, insert("b"))
    assert [answer.status for answer in answers] == [200, 504, 200]
    assert names(tables) == ["a", "b"]


def test_deferred_foreign_key_fails_only_its_own_request(tables: Tables) -> None:
    tables.schema(
        "create table pets (id integer primary key,"
        " owner integer references users deferrable initially deferred)"
    )
    answers = exec_together(
        tables, insert("a"), "insert into pets (owner) values (77)", "insert into pets (owner) values (1)"
    )
    assert [answer.status for answer in answers] == [200, 409, 200]
    assert answers[1].document["constraint"] == "foreign-key"
    assert tables.query("select owner from pets").rows == [{"owner": 1}]
    answer = tables.exec("insert into pets (owner) values (78)")
    assert (answer.status, answer.document["constraint"]) == (409, "foreign-key")


@pytest.mark.parametrize(
    ("sql", "detail"),
    [
        ("insert into pets (owner) values (77)", ": pets.owner refers to users"),
        (
            "insert into bills (pet, payer) values (1, 77)",
            ": bills.pet refers to pets or bills.payer refers to users",
        ),
        ("delete from pets", ": bills.pet refers to pets"),
        ("update pets set id = 9", ": bills.pet refers to pets or pets.owner refers to users"),
        (
            "replace into pets (id, owner) values (1, 7)",
            ": bills.pet refers to pets or pets.owner refers to users",
        ),
        ("delete from users", ""),
        ("insert into marks values (1, 2, 3)", ": marks.a, b refers to grid"),
    ],
)
def test_foreign_keys_that_a_statement_can_violate_are_named(tables: Tables, sql: str, detail: str) -> None:
    tables.schema(
        "create table pets (id integer primary key, owner integer references users on delete cascade)",
        "create table bills (pet integer references pets, payer references users)",
        "create table grid (a, b, primary key (a, b))",
        "create table marks (n, a, b, foreign key (a, b) references grid)",
        "insert into users (id, name) values (1, 'a')",
        "insert into pets values (1, 1)",
        "insert into bills values (1, 1)",
    )
    answer = tables.exec(sql)
    assert (answer.code, answer.document["detail"]) == (
        "constraint",
        f"FOREIGN KEY constraint failed{detail}",
    )
    assert tables.query("select count(*) as n from bills").rows == [{"n": 1}]


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        (insert("a"), "unique"),
        ("insert into users (id, name) values (1, 'b')", "primary-key"),
        ("insert into users (age) values (1)", "not-null"),
        ("insert into users (name, age) values ('b', 'old')", "type"),
        ("insert into ruled values (0)", "check"),
        ("insert into pets values (9)", "foreign-key"),
        ("insert into guarded values (1)", "trigger"),
    ],
)
def test_constraint_error_names_violated_constraint(tables: Tables, sql: str, rule: str) -> None:
    tables.schema(
        "create table ruled (a check (a > 0))",
        "create table pets (owner references users)",
        "create table guarded (a)",
        "create trigger g before insert on guarded begin select raise(abort, 'not this one'); end",
    )
    tables.exec(insert("a"))
    answer = tables.exec(sql)
    assert (answer.status, answer.code, answer.document["constraint"]) == (409, "constraint", rule)


def test_acknowledged_rows_are_visible_to_new_connection(tables: Tables) -> None:
    exec_together(tables, *(insert(f"u{i}") for i in range(100)))
    owner = tables.owner()
    assert owner.execute("select count(*) from users").fetchall() == [(100,)]
    owner.close()


def test_write_waits_for_writer_in_another_process(tables: Tables) -> None:
    tables.query("select 1 as warm")
    owner = tables.owner()

    async def write_after_other() -> Answer:
        owner.execute("begin immediate")
        owner.execute(insert("theirs"))
        insertion = asyncio.ensure_future(tables.exec_async(insert("ours")))
        await asyncio.sleep(0)
        owner.execute("commit")
        return await insertion

    assert tables.run(write_after_other()).status == 200
    assert names(tables) == ["theirs", "ours"]
    owner.close()


def test_write_over_busy_timeout_is_503_with_retry_after(tables: Tables) -> None:
    tables.query("select 1 as warm")
    store = tables.opened._database
    assert store is not None
    store._writer.session.connection.set_busy_timeout(1)
    owner = tables.owner()
    owner.execute("begin immediate")
    answer = tables.exec(insert("ours"))
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "busy", b"1")
    assert tables.query("select id from users").synchronous
    owner.execute("rollback")
    owner.close()
    assert tables.exec(insert("ours")).status == 200


def test_full_write_queue_refuses_writes(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING", 10)
    owner = tables.owner()
    tables.query("select 1 as warm")

    async def fill_queue() -> list[int]:
        owner.execute("begin immediate")
        waiting = [asyncio.ensure_future(tables.exec_async(insert(f"u{i}"))) for i in range(100)]
        await asyncio.sleep(0)
        owner.execute("rollback")
        return [(await each).status for each in waiting]

    statuses = tables.run(fill_queue())
    assert set(statuses) == {200, 503}
    assert len(names(tables)) == statuses.count(200) >= 10
    owner.close()


def test_short_write_does_not_wait_for_endless_ones(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_SECONDS", 300)
    monkeypatch.setattr(writer, "TURN_SECONDS", 0.05)
    endless = f"insert into users (name) {FOREVER} select 'x' || i from n where i < 0"
    tables.query("select 1 as warm")
    store = tables.opened._database
    assert store is not None

    async def main() -> list[Answer]:
        others = [asyncio.ensure_future(tables.exec_async(endless))]
        while not store._writer.session.running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        others += [asyncio.ensure_future(tables.exec_async(endless)) for _ in range(3)]
        await asyncio.sleep(0)
        assert (await tables.exec_async(insert("a"))).status == 200
        assert not any(each.done() for each in others)
        # The first one runs to its limit now. The others begin again after it.
        monkeypatch.setattr(writer, "TIMEOUT_SECONDS", 0.1)
        others[0].cancel()
        return await asyncio.gather(*others[1:])

    assert [answer.code for answer in tables.run(main())] == ["time-limit"] * 3
    assert names(tables) == ["a"]


def test_long_write_that_was_deferred_is_stored_once(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(writer, "TIMEOUT_SECONDS", 60)
    long = (
        "insert into users (name) with recursive n(i) as (select 1 union all select i + 1 from n "
        "where i < 200000) select 'long' || i from n"
    )

    async def main() -> list[Answer]:
        slow = asyncio.ensure_future(tables.exec_async(long))
        short = [await tables.exec_async(insert(f"u{number}")) for number in range(50)]
        return [await slow, *short]

    tables.query("select 1 as warm")
    assert {answer.status for answer in tables.run(main())} == {200}
    assert tables.query("select count(*) as n from users where name like 'long%'").rows == [{"n": 200_000}]
