import pytest

from doors.tables.schema.change import (
    AddColumn,
    Change,
    CreateIndex,
    CreateTable,
    DropColumn,
    DropIndex,
    DropTable,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SetDefault,
    SetNote,
    SetNullable,
    SetPrimaryKey,
    SetUnique,
    apply,
)
from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.errors import Connection, ConstraintError, Error, TablesError, rows, scalar
from engine.control.errors import problem_members
from tests.doors.tables.schema.changes import refusal, table


def test_created_table_is_read_with_same_definition(visits: Connection) -> None:
    definition = table(visits)
    assert [(each.name, each.type, each.default, each.note) for each in definition.columns] == [
        ("id", "integer", None, ""),
        ("name", "text", None, "who came"),
        ("at", "timestamp", "now()", ""),
        ("score", "real", "0.5", ""),
        ("paid", "boolean", "0", ""),
        ("extra", "json", "'{}'", ""),
        ("photo", "blob", None, ""),
    ]
    assert definition.key == ("id",)
    assert definition.note == "every visit"
    assert definition.strict
    assert [each.name for each in definition.columns if not each.nullable] == ["id", "name", "at"]


def test_generated_tables_enforce_logical_types(visits: Connection) -> None:
    for column, value in [
        ("at", "'2026-01-01'"),
        ("at", "'2026-02-30T00:00:00.000Z'"),
        ("at", "'2026-01-01T24:00:00.000Z'"),
        ("at", "'2026-01-01 00:00:00.000Z'"),
        ("paid", "2"),
        ("extra", "'{'"),
        ("score", "'x'"),
        ("photo", "'text'"),
        ("name", "null"),
    ]:
        with pytest.raises(ConstraintError):
            visits.execute(f"update visits set {column} = {value}")
    visits.execute("update visits set at = '2028-02-29T23:59:59.999Z', paid = true, extra = '[1]'")


def test_default_now_is_plain_sqlite_sql(visits: Connection) -> None:
    assert scalar(visits, "select count(*) from visits where at glob '20??-*T*.???Z'") == 3


@pytest.mark.parametrize(
    "name",
    [
        "",
        " a",
        "a ",
        "a\0b",
        "a\nb",
        "sqlite_x",
        "SQLite_x",
        "_svc",
        "_SVC_x",
        "x" * 121,
        "\ud800",
        "\u202ex",
    ],
)
def test_invalid_names_are_refused(database: Connection, name: str) -> None:
    assert "a table cannot be named" in refusal(database, CreateTable(name, (Column("a", "text"),)))
    assert "a column cannot be named" in refusal(database, CreateTable("t", (Column(name, "text"),)))


@pytest.mark.parametrize(
    "name", ['a "b" c', "été", "名前", "a'b", "select", "a.b", "[x]", "`", "x;--", "می‌روم", "1"]
)
def test_names_in_any_script_or_with_quotes_are_accepted(database: Connection, name: str) -> None:
    columns = (Column(name, "timestamp", default="now()"), Column("b", "boolean", unique=True))
    apply(database, [CreateTable(name, columns), CreateIndex(name, (name, "b"))])
    database.execute(f'insert into "{name.replace(chr(34), chr(34) * 2)}" (b) values (1)')
    apply(database, [RetypeColumn(name, name, "text"), SetUnique(name, "b", False)])
    assert [each.type for each in table(database, name).columns] == ["text", "boolean"]
    apply(database, [RenameColumn(name, name, "plain"), RenameTable(name, "t")])
    assert [each.name for each in table(database, "t").columns] == ["plain", "b"]
    assert table(database, "t").indexes[0].columns == ("plain", "b")


def test_invalid_create_table_is_refused(visits: Connection) -> None:
    one = (Column("a", "text"),)
    assert "visits already" in refusal(visits, CreateTable("VISITS", one))
    assert "0 columns" in refusal(visits, CreateTable("t", ()))
    assert "two columns named A" in refusal(visits, CreateTable("t", (*one, Column("A", "text"))))
    assert "the rowid" in refusal(visits, CreateTable("t", (Column("ROWID", "text"),)))
    assert "501 columns" in refusal(
        visits, CreateTable("t", tuple(Column(f"c{at}", "text") for at in range(501)))
    )


@pytest.mark.parametrize(
    ("type", "default", "message"),
    [
        ("integer", "now()", "cannot default to now()"),
        ("integer", "1.5", "is not a value of type integer"),
        ("integer", "random()", "neither now() nor one value"),
        ("integer", "1; drop table visits", "neither now() nor one value"),
        ("integer", "(select 1)", "neither now() nor one value"),
        ("text", "open", "in single quotes"),
        ("text", '"open"', "in single quotes"),
        ("text", "", "neither now()"),
        ("boolean", "2", "is neither true nor false"),
        ("timestamp", "'soon'", "is not a timestamp"),
        ("json", "'{'", "is not JSON"),
        ("integer", "9223372036854775808", "is not a value of type integer"),
        ("real", "-45e76582", "is beyond the range of a real"),
        ("real", "0.123456789012345678", "has more digits than a real can hold"),
    ],
)
def test_invalid_defaults_are_refused(database: Connection, type: str, default: str, message: str) -> None:
    definition = CreateTable("t", (Column("a", type, default=default),))  # type: ignore[arg-type]
    assert message in refusal(database, definition)


def test_added_column_fills_existing_rows_with_default(visits: Connection) -> None:
    apply(
        visits,
        [
            AddColumn("visits", Column("plain", "json", note="n")),
            AddColumn("visits", Column("count", "integer", nullable=False, default="-3")),
            AddColumn("visits", Column("seen", "timestamp", nullable=False, default="now()")),
            AddColumn("visits", Column("code", "text", unique=True)),
        ],
    )
    result = rows(visits, "select id, plain, count, code from visits order by id")
    assert result == [(1, None, -3, None), (5, None, -3, None), (9, None, -3, None)]
    assert scalar(visits, "select count(distinct seen) from visits where seen is not null") == 1
    assert table(visits).column("CODE").unique
    assert table(visits).column("plain").note == "n"
    assert "no value for the existing rows" in refusal(
        visits, AddColumn("visits", Column("x", "text", nullable=False))
    )
    assert "already has a column ID" in refusal(visits, AddColumn("visits", Column("ID", "text")))
    assert "unique" in refusal(visits, AddColumn("visits", Column("x", "text", default="'a'", unique=True)))
    assert "key" in refusal(visits, AddColumn("visits", Column("x", "text", primary_key=True)))


def test_required_column_without_default_is_added_to_empty_table(visits: Connection) -> None:
    visits.execute("delete from visits")
    apply(visits, [AddColumn("visits", Column("x", "text", nullable=False))])
    assert not table(visits).column("x").nullable


def test_notes_follow_renames_and_drops(visits: Connection) -> None:
    apply(visits, [RenameTable("visits", "guests"), RenameColumn("guests", "name", "who")])
    assert table(visits, "guests").note == "every visit"
    assert table(visits, "guests").column("who").note == "who came"
    apply(visits, [SetNote("guests", "who", ""), SetNote("guests", "", "all"), SetNote("guests", "id", "n")])
    assert [each.note for each in table(visits, "guests").columns][:2] == ["n", ""]
    apply(visits, [DropTable("guests"), CreateTable("guests", (Column("id", "integer"),))])
    assert table(visits, "guests").note == table(visits, "guests").columns[0].note == ""


def test_rename_to_different_case_changes_name(visits: Connection) -> None:
    apply(visits, [RenameTable("visits", "Visits"), RenameColumn("visits", "name", "NAME")])
    assert table(visits, "Visits").columns[1].name == "NAME"
    assert table(visits, "Visits").columns[1].note == "who came"


def test_drop_column_in_use_names_dependent(visits: Connection) -> None:
    apply(visits, [CreateIndex("visits", ("name",), name="by_name")])
    visits.execute("create view v as select score from visits")
    visits.execute("create trigger r after insert on visits begin update visits set paid = 1; end")
    assert "index by_name" in refusal(visits, DropColumn("visits", "name"))
    assert "in the key" in refusal(visits, DropColumn("visits", "id"))
    assert "view v" in refusal(visits, DropColumn("visits", "score"))
    assert "trigger r" in refusal(visits, DropColumn("visits", "paid"))
    assert "has no column x" in refusal(visits, DropColumn("visits", "x"))
    apply(visits, [DropIndex("BY_NAME"), DropColumn("visits", "name"), DropColumn("visits", "extra")])
    assert [each.name for each in table(visits).columns] == ["id", "at", "score", "paid", "photo"]


def test_unique_column_can_be_dropped(visits: Connection) -> None:
    apply(visits, [SetUnique("visits", "name", True), DropColumn("visits", "name")])
    assert scalar(visits, "select count(*) from visits") == 3


def test_drop_of_only_column_is_refused(database: Connection) -> None:
    apply(database, [CreateTable("t", (Column("a", "text"),))])
    assert "only column" in refusal(database, DropColumn("t", "a"))


def test_drop_of_referenced_table_is_refused(visits: Connection) -> None:
    visits.execute("create table notes (visit integer references Visits(id))")
    assert "table notes refers to it" in refusal(visits, DropTable("visits"))
    visits.execute("drop table notes; create view v as select name from visits")
    assert "view v" in refusal(visits, DropTable("visits"))
    assert "table x does not exist" in refusal(visits, DropTable("x"))
    assert "v is a view" in refusal(visits, DropTable("v"))
    assert "table _svc_notes does not exist" in refusal(visits, DropTable("_svc_notes"))


def test_constraint_change_names_violating_rows(visits: Connection) -> None:
    visits.execute("update visits set score = null where id = 5")
    assert "column score of table visits has no value in the row with id = 5" in refusal(
        visits, SetNullable("visits", "score", False)
    )
    visits.execute("update visits set name = 'same' where id > 1")
    assert '2 rows of table visits have name = "same"' in refusal(visits, SetUnique("visits", "name", True))
    assert "2 rows" in refusal(visits, SetPrimaryKey("visits", ("name",)))
    assert "has no value" in refusal(visits, SetPrimaryKey("visits", ("id", "score")))
    assert "2 rows" in refusal(visits, CreateIndex("visits", ("name", "paid"), unique=True))
    assert "in the key" in refusal(visits, SetNullable("visits", "id", True))


def test_constraints_and_defaults_are_added_and_removed(visits: Connection) -> None:
    apply(
        visits,
        [
            SetUnique("visits", "name", True),
            SetNullable("visits", "name", True),
            SetNullable("visits", "score", False),
            SetDefault("visits", "score", None),
            SetDefault("visits", "name", "'it''s'"),
        ],
    )
    name, score = table(visits).column("name"), table(visits).column("score")
    assert (name.unique, name.nullable, name.default) == (True, True, "'it''s'")
    assert (score.nullable, score.default) == (False, None)
    apply(visits, [SetUnique("visits", "name", False), SetNullable("visits", "score", True)])
    assert not table(visits).column("name").unique
    visits.execute("create unique index u on visits(name)")
    apply(visits, [SetUnique("visits", "name", False)])
    assert table(visits).indexes == ()


def test_primary_key_changes_columns(visits: Connection) -> None:
    apply(visits, [SetPrimaryKey("visits", ("name", "id"))])
    assert table(visits).key == ("name", "id")
    apply(visits, [SetPrimaryKey("visits", ())])
    assert table(visits).key == ()
    assert not table(visits).column("id").nullable
    assert rows(visits, "select id from visits order by 1") == [(1,), (5,), (9,)]
    apply(visits, [SetPrimaryKey("visits", ("id",))])
    assert table(visits).key == ("id",)


def test_failed_change_undoes_earlier_changes(visits: Connection) -> None:
    good = AddColumn("visits", Column("x", "text"))
    assert "nothing" in refusal(visits, good, DropTable("nothing"))
    with pytest.raises(ValueError, match="in a transaction"), visits:
        apply(visits, [good])


def test_change_breaking_foreign_key_is_refused(database: Connection) -> None:
    database.execute(
        "create table p (a text unique, b text); create table c (a text references p(a));"
        "insert into p values ('1', null); insert into c values ('1')"
    )
    assert "foreign key mismatch" in refusal(database, SetUnique("p", "a", False))


def test_existing_foreign_key_mismatch_does_not_block_changes(database: Connection) -> None:
    database.execute(
        "create table p (a text, b text); create table c (a text references p(a));"
        "pragma foreign_keys = off; insert into p values ('1', null); insert into c values ('1');"
        "pragma foreign_keys = on"
    )
    apply(database, [CreateTable("other", (Column("a", "text"),)), SetUnique("p", "a", True)])
    assert scalar(database, "select count(*) from pragma_foreign_key_check") == 0


def test_full_disk_changes_nothing(visits: Connection) -> None:
    visits.execute("update visits set photo = zeroblob(200000)")
    pages = scalar(visits, "pragma page_count")
    visits.execute(f"pragma max_page_count = {pages + 3}").fetchall()
    before = rows(visits, "select * from visits")
    with pytest.raises(TablesError, match="the disk is full") as full:
        apply(visits, [SetNullable("visits", "photo", False)])
    assert problem_members(full.value)["status"] == 507
    assert rows(visits, "select * from visits") == before
    visits.execute("pragma max_page_count = 1000000").fetchall()


def test_change_during_another_write_is_refused(visits: Connection) -> None:
    other = Connection(visits.filename)
    other.execute("begin immediate")
    assert "another writer is active" in refusal(visits, DropTable("visits"))
    other.close()


def test_concurrent_reader_sees_schema_before_or_after_change(visits: Connection) -> None:
    other = Connection(visits.filename)
    other.execute("begin")
    assert scalar(other, "select typeof(id) from visits") == "integer"
    apply(visits, [RetypeColumn("visits", "id", "text"), DropColumn("visits", "name")])
    assert rows(other, "select id, name from visits where id = 1") == [(1, "ada")]
    other.execute("commit")
    assert scalar(other, "select typeof(id) from visits") == "text"
    with pytest.raises(Error, match="no such column"):
        other.execute("select name from visits")
    other.close()


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (RenameTable("visits", "guests"), "full-text index found reads Visits"),
        (DropTable("visits"), "full-text index found reads Visits"),
        (RenameColumn("visits", "name", "who"), "full-text index found reads column name of Visits"),
        (RenameColumn("visits", "id", "number"), "full-text index found reads column id of Visits"),
        (DropColumn("visits", "name"), "full-text index found reads column name of Visits"),
    ],
)
def test_table_that_a_full_text_index_reads_cannot_be_taken_away(
    visits: Connection, change: Change, broken: str
) -> None:
    visits.execute("create virtual table found using fts5(name, content='Visits', content_rowid=\"id\")")
    assert broken in refusal(visits, change)
    apply(visits, [RetypeColumn("visits", "score", "text"), DropColumn("visits", "photo")])
    visits.execute("insert into found (found) values ('rebuild'); select * from found").fetchall()
