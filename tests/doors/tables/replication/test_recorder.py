"""A recorder publishes exactly what its transaction committed: a log in memory, and three copies of it."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doors.tables import migrations
from doors.tables.replication.copy import Copy, LogPosition
from doors.tables.replication.entry import messages_of
from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.recorder import Recorder
from doors.tables.schema.change import CreateTable, RenameColumn, RenameTable, SetNote, apply
from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.connections import Connection, Error, apsw
from doors.tables.sqlite.errors import TablesError
from engine.replication import LogMessage
from tests.support.examples import examples

SCHEMA = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema"
    " WHERE name NOT IN ('_svc_replica', 'sqlite_autoindex__svc_replica_1') ORDER BY 1, 2"
)
UNORDERED = ("sqlite_stat1", "sqlite_sequence")
"""Tables whose rowids nothing depends on."""


class OneWriter:
    """Replaces a `Replica`: a log in memory, and copies that have all its entries."""

    node, writes, refuses = "a", True, True

    def __init__(self, root: Path) -> None:
        paths = [root / f"{number}.db" for number in range(4)]
        self.messages: list[LogMessage] = []
        first, *self._copies = (Copy(path, "memory") for path in paths)
        first.close()
        self.readers = [Connection(str(path)) for path in paths]
        for reader in self.readers:
            reader.create_scalar_function("now", lambda: "", 0, flags=apsw.SQLITE_INNOCUOUS)
        self.connection = Connection(str(paths[0]))
        """The connection of the node that writes."""
        self.connection.create_scalar_function("now", lambda: "9999", 0, flags=apsw.SQLITE_INNOCUOUS)
        self.connection.execute("pragma synchronous = normal")
        Recorder(self.connection, self)

    def close(self) -> None:
        """Close the files."""
        for each in (*self._copies, *self.readers, self.connection):
            each.close()

    def publish(self, content: bytes, log_position: LogPosition) -> LogPosition:
        for message in messages_of(content):
            self.messages.append(LogMessage(len(self.messages) + 1, message))
        return log_position.after(len(self.messages), content)

    def on_written(self, log_position: LogPosition | None) -> None:
        assert log_position is not None

    def contents(self) -> list[dict[str, Any]]:
        """Return the content of the file that was written, and of the copies."""
        for copy in self._copies:
            after = copy.after
            copy.apply([each for each in self.messages if each.sequence > after], after, ignore)
        return [content_of(reader) for reader in self.readers]


def ignore(*_: object) -> None:
    pass


def content_of(connection: Connection) -> dict[str, Any]:
    """Return the schema, and the rows of all tables with their rowids."""
    schema = connection.execute(SCHEMA).fetchall()
    tables = connection.execute(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main'"
        # Samples of ANALYZE, which the planner alone uses, are not replicated.
        " AND name NOT IN ('_svc_replica', 'sqlite_stat4')"
        " AND type IN ('table', 'shadow', 'virtual') AND name <> 'sqlite_schema'"
    ).fetchall()
    rows = {}
    for name, without_rowid in tables:
        columns = "*" if without_rowid or name in UNORDERED else "_rowid_, *"
        rows[name] = sorted(connection.execute(f'SELECT {columns} FROM "{name}"'), key=repr)
    return {"": schema, **rows}


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[OneWriter]:
    with closing(OneWriter(tmp_path)) as tables:
        yield tables


@pytest.fixture
def connection(tables: OneWriter) -> Connection:
    return tables.connection


def assert_equal(tables: OneWriter) -> dict[str, Any]:
    """Return the content, which all copies have."""
    written, *copies = tables.contents()
    assert copies == [written] * 3
    return written


def run(connection: Connection, *statements: str) -> None:
    """Run a transaction, and roll it back after an error."""
    try:
        for statement in ("begin immediate", *statements, "commit"):
            connection.execute(statement).fetchall()
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def test_statement_that_a_savepoint_took_back_is_published_nowhere(
    tables: OneWriter, connection: Connection
) -> None:
    run(connection, "create table t (id integer primary key, v)")
    before = assert_equal(tables)
    with pytest.raises(ReplicationError, match="savepoint"):
        run(
            connection,
            "insert into t values (1, 'kept')",
            "savepoint s",
            "insert into t values (2, 'taken back')",
            "create table u (a integer primary key)",
            "rollback to s",
            "release s",
        )
    assert assert_equal(tables) == before
    run(
        connection,
        "insert into t values (1, 'kept')",
        "savepoint s",
        "insert into t values (2, 'taken back')",
        "rollback to s",
        "release s",
    )
    assert assert_equal(tables)["t"] == [(1, 1, "kept")]


def test_statement_that_failed_is_published_nowhere(tables: OneWriter, connection: Connection) -> None:
    run(connection, "create table t (id integer primary key, v)", "insert into t values (1, 'x'), (2, 'x')")
    connection.execute("begin immediate")
    connection.execute("insert into t values (3, 'y')")
    with pytest.raises(Error, match="UNIQUE"):
        connection.execute("create unique index u on t (v)")
    connection.execute("insert into t values (4, 'z')")
    connection.execute("commit")
    assert len(assert_equal(tables)["t"]) == 4


def test_key_that_is_used_up_without_a_row_is_used_up_everywhere(
    tables: OneWriter, connection: Connection
) -> None:
    run(connection, "create table t (id integer primary key autoincrement, v unique)")
    run(connection, "insert into t (v) values (1)")
    run(connection, "insert or ignore into t (v) values (1)")
    assert assert_equal(tables)["sqlite_sequence"] == [("t", 2)]
    run(connection, "create table u (id integer primary key autoincrement, v)")
    run(connection, "insert into u (v) select v from u")
    assert assert_equal(tables)["sqlite_sequence"] == [("t", 2), ("u", 0)]
    count = len(tables.messages)
    run(connection, "update t set v = 2 where v = 3")
    assert len(tables.messages) == count


@pytest.mark.parametrize(
    "statement",
    [
        "create table k as select random() r, 1 n",
        "create/**/table k as select random() r, 1 n",
        "/* a */ create -- b\n table if not exists k as select random() r",
        ";create table k as values (random())",
    ],
)
def test_rows_of_create_table_as_are_refused(
    tables: OneWriter, connection: Connection, statement: str
) -> None:
    before = assert_equal(tables)
    with pytest.raises(ReplicationError, match="CREATE TABLE … AS"):
        run(connection, statement)
    with pytest.raises(ReplicationError, match="CREATE TABLE … AS"):
        run(connection, statement, "update k set rowid = rowid + 1")
    assert assert_equal(tables) == before


@pytest.mark.parametrize(
    "statements",
    [
        ["create table h (id integer primary key, v check (v < now()))", "insert into h (v) values ('9998')"],
        [
            "create table h (id integer primary key, v check (v <> random() and v < current_timestamp))",
            "insert into h (v) values ('1')",
        ],
        [
            "create table h (id integer primary key, v)",
            "insert into h (v) values (1)",
            "alter table h add column c check (now() > '1')",
        ],
        [
            "create table h (id integer primary key, v default (random()), w default current_timestamp)",
            "insert into h (v) values (1)",
        ],
        [
            "create table h (id integer primary key, v)",
            "alter table h add column c default (random())",
            "insert into h (v) values (1)",
        ],
        [
            "create table h (id integer primary key, v, a as (v || 'a'), b as (v || 'b') stored)",
            "insert into h (v) values (1)",
        ],
        [
            "create table h (id integer primary key, v)",
            "create trigger r after insert on h begin update h set v = random() where id = new.id; end",
            "insert into h (v) values (1)",
            "alter table h rename column v to w",
            "insert into h (w) values (now())",
        ],
        [
            "create view r as select random() v",
            "create table h (id integer primary key, v)",
            "insert into h (v) select v from r",
        ],
        [
            "create virtual table f using fts5(text)",
            "insert into f select 'word' || random()",
            "alter table f rename to g",
            "insert into g values ('other')",
        ],
        ["create virtual table b using rtree(id, low, high)", "insert into b values (1, 2, 3)"],
        ["create table h (id integer primary key autoincrement)", "insert into h values (7)", "drop table h"],
        [
            "create table h (id integer primary key, v unique)",
            "insert into h (v) values (2), (1)",
            "analyze",
            "reindex",
        ],
        [
            "create table h (id integer primary key, v unique, w)",
            "analyze",
            "insert into h (v, w) select random(), 1",
            "analyze",
            "analyze h",
        ],
        [
            "create table h (id integer primary key, v)",
            "analyze",
            "delete from sqlite_stat1",
            "drop table sqlite_stat1",
        ],
        [
            "create temp table s (v)",
            "insert into s values (1)",
            "create table h (id integer primary key, v)",
            "drop table s",
        ],
        [
            "create table h (id integer primary key, v)",
            "create table if not exists h (id integer primary key, w)",
            "insert into h (v) values (1)",
        ],
        [
            "-- create\ncreate table h (id integer primary key, v) -- end",
            "/**/insert into h (v) values (1)",
            ";;insert into h (v) values (2)",
        ],
        [
            "/*" + "c" * 5000 + "*/ create table h (id integer primary key, v)",
            "--" + "c" * 5000 + "\ninsert into h (v) values (1)",
            "with n as (select 2) insert into h (v) select * from n",
        ],
        ["create table h (v primary key, w) without rowid", "insert into h values (2, 1), (1, 2)"],
        [
            "create table h (id integer primary key, v)",
            "insert into h (v) values (2), (1)",
            "alter table h rename to i",
            "select v from i",
        ],
    ],
    ids=lambda statements: statements[-1][:40],
)
def test_statement_whose_result_may_depend_on_the_node_is_replayed_equally(
    tables: OneWriter, connection: Connection, statements: list[str]
) -> None:
    connection.execute("begin immediate")
    for statement in statements:
        with suppress(Error):
            connection.execute(statement).fetchall()
    connection.execute("commit")
    assert_equal(tables)
    run(connection, "create table last (id integer primary key, v)", "insert into last (v) values (1)")
    assert assert_equal(tables)["last"] == [(1, 1, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "create table k (v text primary key)",
        "create table k (v text not null primary key)",
        "create table k (v integer primary key desc)",
        "create table k (v, w, primary key (w, v))",
        "create table k (v text collate nocase primary key) without rowid",
        "create table k (v, w)",
        "create table k (_ROWID_ text, v)",
    ],
)
def test_table_whose_rows_would_differ_on_other_nodes_is_refused(
    tables: OneWriter, connection: Connection, statement: str
) -> None:
    before = assert_equal(tables)
    with pytest.raises(ReplicationError, match="table k") as refused:
        run(connection, statement)
    added = "Add WITHOUT ROWID to the CREATE TABLE of k."
    hints = {"nocase": "create a unique index", "key": added, "": "Add id INTEGER PRIMARY KEY"}
    assert next(hint for part, hint in hints.items() if part in statement) in refused.value.hint
    assert assert_equal(tables) == before


def test_table_from_before_the_rule_is_written_as_before(tables: OneWriter, connection: Connection) -> None:
    for reader in tables.readers:
        reader.execute("create table old (k text not null primary key, v)")
        reader.execute("create table loose (k text primary key, v)")
    run(connection, "insert into old values ('a', 1)", "alter table old add column w")
    run(connection, "drop table old", "create table old (k text not null primary key, v)")
    run(connection, "insert into old values ('b', 2)")
    assert assert_equal(tables)["old"] == [(1, "b", 2)]
    before = assert_equal(tables)
    with pytest.raises(ReplicationError, match="table older") as refused:
        run(connection, "alter table old rename to older")
    assert refused.value.hint == "Add WITHOUT ROWID to the CREATE TABLE of older."
    with pytest.raises(ReplicationError, match="table loose"):
        run(connection, "insert into loose values (null, 1)")
    assert assert_equal(tables) == before
    run(
        connection,
        "create table new (k text primary key, v) without rowid",
        "insert into new select * from old",
        "drop table old",
        "alter table new rename to old",
    )
    assert assert_equal(tables)["old"] == [("b", 2)]


def test_notes_are_written_on_all_nodes_also_in_a_table_of_an_older_svc(
    tables: OneWriter, connection: Connection
) -> None:
    old = "table_name TEXT NOT NULL COLLATE NOCASE, column_name TEXT NOT NULL COLLATE NOCASE, note TEXT"
    key = "PRIMARY KEY (table_name, column_name)"
    with_notes = (Column("id", "integer", primary_key=True), Column("v", "text", note="first"))
    apply(connection, [CreateTable("t", with_notes)])
    assert assert_equal(tables)["_svc_notes"] == [("t", "v", "first")]
    run(connection, "drop table _svc_notes")
    assert_equal(tables)
    for reader in tables.readers:
        reader.execute(f"CREATE TABLE _svc_notes ({old}, {key}) STRICT, WITHOUT ROWID")
        reader.execute("INSERT INTO _svc_notes VALUES ('t', 'v', 'first')")
    for change in (RenameTable("t", "T"), SetNote("t", "", "all"), RenameColumn("t", "v", "V")):
        apply(connection, [change])
    assert assert_equal(tables)["_svc_notes"] == [("T", "", "all"), ("T", "V", "first")]


def test_dropped_table_whose_rows_others_reference_is_refused_while_foreign_keys_hold(
    tables: OneWriter, connection: Connection
) -> None:
    run(
        connection,
        "create table p (id integer primary key)",
        "create table c (id integer primary key, p references p on delete cascade)",
        "insert into p values (1)",
        "insert into c values (2, 1)",
    )
    before = assert_equal(tables)
    connection.execute("pragma foreign_keys = on")
    with pytest.raises(ReplicationError, match="DROP TABLE"):
        run(connection, "drop table p")
    assert assert_equal(tables) == before
    connection.execute("pragma foreign_keys = off")
    run(connection, "drop table p")
    assert assert_equal(tables)["c"] == [(2, 2, 1)]


def test_write_without_a_transaction_is_refused(tables: OneWriter, connection: Connection) -> None:
    run(connection, "create table t (id integer primary key, v)")
    with pytest.raises(ReplicationError):
        connection.execute("insert into t values (1, 'x')")
    for statement in ("savepoint s", "insert into t values (1, 'x')"):
        connection.execute(statement)
    with pytest.raises(ReplicationError):
        connection.execute("release s")
    connection.execute("rollback")
    assert assert_equal(tables)["t"] == []
    connection.execute("create temp table staged (v)")
    connection.execute("insert into staged values ('y')")
    run(connection, "insert into t select 2, v from staged")
    assert assert_equal(tables)["t"] == [(2, 2, "y")]


def test_change_that_no_trace_reported_is_refused(tables: OneWriter, connection: Connection) -> None:
    run(connection, "create table t (id integer primary key, v)")
    before = assert_equal(tables)
    for change in ("insert into t values (1, 'x')", "create table u (v integer primary key)"):
        for first in ([], ["insert into t values (2, 'y')"]):
            for statement in ("begin immediate", *first):
                connection.execute(statement)
            untraced = connection.cursor()
            untraced.exec_trace = lambda *_: True
            untraced.execute(change)
            if first and change.startswith("insert"):  # The session of the first statement recorded it.
                connection.execute("commit")
                assert len(assert_equal(tables)["t"]) == 2
                run(connection, "delete from t")
            elif first or change.startswith("insert"):
                with pytest.raises(ReplicationError):
                    connection.execute("commit")
            connection.execute("rollback") if connection.in_transaction else None
            assert assert_equal(tables) == before


NUMBER = st.integers(0, 4)
NAME = st.sampled_from(["a", '"c d"', "[e]"])
COMMENT = st.sampled_from(
    ["", "", "", "/* ' \" ; */", "-- it's\n", "; ", "/* commit */ ", "-- create table x\n\t"]
)
SHAPE = st.sampled_from(
    [
        "(id integer primary key, v, w)",
        "(id integer primary key autoincrement, v unique, w check (w < now()))",
        "(v, w)",
        "(id integer primary key, v unique, w, x as (v || 'x'), y as (w || 'y') stored)",
        "(v text, w text, primary key (w, v)) without rowid",
        "(v integer primary key, w default (random())) without rowid, strict",
        "(v text not null primary key, w)",
        "as select random() v, random() w",
        "as select 1 v, 2 w where now() < '3000'",
    ]
)
CHANGE = st.one_of(
    st.builds("create table {} {}".format, NAME, SHAPE),
    st.builds("create table if not exists {} {}".format, NAME, SHAPE),
    st.builds("create/**/table {} {}".format, NAME, SHAPE),
    st.builds("drop table {}".format, NAME),
    st.builds("alter table {} rename to {}".format, NAME, NAME),
    st.builds("alter table {} rename column w to w{}".format, NAME, NUMBER),
    st.builds("alter table {} add column n{} default {}".format, NAME, NUMBER, NUMBER),
    st.builds("alter table {} drop column n{}".format, NAME, NUMBER),
    st.builds("create unique index u{} on {} (w)".format, NUMBER, NAME),
    st.builds("drop index u{}".format, NUMBER),
    st.builds(
        "create trigger r{} after insert on {} begin delete from {} where v = random() % 3; end".format,
        NUMBER,
        NAME,
        NAME,
    ),
    st.sampled_from(["analyze", "reindex", "create virtual table f using fts5(text)", "drop table f"]),
)
ROW = st.one_of(
    st.builds("insert into {} (v, w) values ({}, random())".format, NAME, NUMBER),
    st.builds("insert or rollback into {} (v, w) values ({}, 1)".format, NAME, NUMBER),
    st.builds("insert or replace into {} (v, w) values ('it''s', {})".format, NAME, NUMBER),
    st.builds("with n (v) as (select {}) insert into {} (v, w) select v, 'x' from n".format, NUMBER, NAME),
    st.builds("update {} set w = w || '--' where v = {}".format, NAME, NUMBER),
    st.builds("update {} set rowid = rowid + {}".format, NAME, NUMBER),
    st.builds("replace into {} (v, w) select w, v from {}".format, NAME, NAME),
    st.builds("delete from {} where v > {}".format, NAME, NUMBER),
    st.builds("delete from {}".format, NAME),
    st.builds("insert into f values ('word{}')".format, NUMBER),
    st.sampled_from(["delete from f", "select v from a", "nonsense", "delete from sqlite_stat1"]),
)
COMMENTED = st.one_of(st.builds("{}{}".format, COMMENT, ROW), st.builds("{}{}".format, COMMENT, CHANGE))
CONTROL = st.sampled_from(["savepoint s", "release s", "rollback to s"])
STATEMENTS = st.lists(st.one_of(COMMENTED, COMMENTED, CONTROL), max_size=10)
TRANSACTION = st.tuples(STATEMENTS, st.sampled_from(["commit", "commit", "commit", "rollback"]))


@given(transactions=st.lists(TRANSACTION, min_size=1, max_size=8))
@settings(max_examples=examples(60), deadline=None)
def test_all_copies_equal_what_random_transactions_committed(
    transactions: list[tuple[list[str], str]],
) -> None:
    with TemporaryDirectory() as folder, closing(OneWriter(Path(folder))) as tables:
        run(tables.connection, "create table a (id integer primary key, v, w)")
        before = assert_equal(tables)
        for statements, end in transactions:
            tables.connection.execute("begin immediate")
            refused = end == "rollback"
            for statement in statements:
                try:
                    tables.connection.execute(statement).fetchall()
                except Error:
                    pass
                except ReplicationError:
                    refused = True
                    break
            try:
                tables.connection.execute("rollback" if refused else end)
            except (Error, ReplicationError):
                refused = True
                if tables.connection.in_transaction:
                    tables.connection.execute("rollback")
            after = assert_equal(tables)
            assert not refused or after == before
            before = after


def test_migration_that_cannot_be_replicated_names_its_line_and_the_change(
    tables: OneWriter, connection: Connection
) -> None:
    before = assert_equal(tables)
    sql = (
        "create table a (v integer primary key);\ninsert into a values (1);\n\n"
        "create table sets (id text not null primary key);"
    )
    with pytest.raises(TablesError) as refused:
        migrations.apply(connection, [migrations.Migration("tables/0001-sets.sql", sql)])
    assert refused.value.code == "not-replicable"
    assert refused.value.message.startswith("tables/0001-sets.sql:4: a fleet does not replicate the rowids")
    assert refused.value.hint == "Add WITHOUT ROWID to the CREATE TABLE of sets."
    assert assert_equal(tables) == before
