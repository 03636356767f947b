"""Tables that were changed in development, and the migration that makes the same changes."""

from pathlib import Path

import pytest

from doors.tables.migrations import find, migrate
from doors.tables.migrations.drift import unmigrated, write
from doors.tables.schema.change import (
    AddColumn,
    Change,
    CreateIndex,
    CreateTable,
    DropColumn,
    DropIndex,
    RenameColumn,
    RetypeColumn,
    SetDefault,
    SetNullable,
    SetUnique,
    apply,
)
from doors.tables.sqlite.catalog import Column, read
from doors.tables.sqlite.errors import TablesError, rows
from doors.tables.sqlite.owner import open_for_reading, open_for_writing

NOTES = (
    "create table notes (id integer primary key, text text not null, size integer) strict;\n"
    "create index notes_text on notes (text);\n"
    "create view short as select id from notes where size < 10;\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with one migration that is applied to its data."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "0001-notes.sql").write_text(NOTES)
    migrate(tmp_path, tmp_path / ".svc")
    return tmp_path


def run(project: Path, sql: str, data: str = ".svc") -> None:
    with open_for_writing(project / data) as connection:
        connection.execute(sql)


def change(project: Path, *changes: Change) -> None:
    with open_for_writing(project / ".svc") as connection:
        apply(connection, changes)


def assert_round_trip(project: Path) -> None:
    """Assert that the migrations make the tables of `.svc`, also on a service where notes has a row."""
    assert unmigrated(project, project / ".svc") == ()
    assert migrate(project, project / ".svc") == ()
    (project / "live").mkdir()
    (project / "live" / "tables").mkdir()
    (project / "live" / "tables" / "0001-notes.sql").write_text(NOTES)
    migrate(project / "live", project / "service")
    run(project, "insert into notes (id, text, size) values (7, 'seven', 1)", "service")
    assert len(migrate(project, project / "service")) == len(find(project)) - 1
    with open_for_reading(project / ".svc") as here, open_for_reading(project / "service") as service:
        assert read(here) == read(service)
        assert rows(service, "select id, text, size from notes") == [(7, "seven", 1)]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (
            'create table "gäste liste" (id integer primary key, at text default (now()), check (id > 0));'
            'create index by_at on "gäste liste" (at);',
            ["table gäste liste", "index by_at"],
        ),
        ("create view long as select * from notes where size > 9", ["view long"]),
        (
            "create trigger grown after update on notes begin update notes set size = 1; select 1; end",
            ["trigger grown"],
        ),
        ("create virtual table found using fts5 (text, content=notes, content_rowid=id)", ["table found"]),
        ("alter table notes add column color text default 'red' not null", ["column notes.color"]),
        ("alter table notes add column twice integer as (size * 2)", ["column notes.twice"]),
        ("create table a (id integer primary key, a references a); create table b (a references a)",
         ["table a", "table b"]),
        ("drop view short; create view short as select id, text from notes", ["view short (changed)"]),
        ("drop index notes_text; create unique index notes_text on notes (text)",
         ["index notes_text (changed)"]),
        ("drop index notes_text; drop view short", ["view short (dropped)", "index notes_text (dropped)"]),
    ],
)  # fmt: skip
def test_objects_of_development_are_named_and_written(project: Path, sql: str, names: list[str]) -> None:
    run(project, sql)
    assert sorted(unmigrated(project, project / ".svc")) == sorted(names)
    written = write(project, project / ".svc", "more")
    assert written.files == ("tables/0002-more.sql",) and written.left_out == ()
    assert sorted(written.names) == sorted(names)
    assert_round_trip(project)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        (AddColumn("notes", Column("at", "timestamp", nullable=False, default="now()")), "column notes.at"),
        (AddColumn("notes", Column("code", "text", unique=True)), "column notes.code"),
        (SetNullable("notes", "text", True), "column notes.text (changed)"),
        (SetDefault("notes", "size", "3"), "column notes.size (changed)"),
        (SetUnique("notes", "text", True), "column notes.text (changed)"),
    ],
)
def test_column_change_is_written_and_preserves_rows(project: Path, changed: Change, name: str) -> None:
    run(project, "create trigger grown after insert on notes begin select 1; end")
    change(project, changed)
    assert write(project, project / ".svc", "more").names == (name, "trigger grown")
    assert_round_trip(project)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([RetypeColumn("notes", "size", "text")], ["column notes.size (changed)"]),
        ([DropIndex("notes_text"), DropColumn("notes", "text")], ["column notes.text (dropped)"]),
        (
            [RenameColumn("notes", "text", "words"), CreateIndex("notes", ["words"], name="by_words")],
            ["column notes.words", "column notes.text (dropped)", "index by_words"],
        ),
    ],
)
def test_change_that_loses_values_is_named_and_left_out(
    project: Path, changes: list[Change], names: list[str]
) -> None:
    change(project, *changes, CreateTable("others", (Column("id", "integer"),)))
    written = write(project, project / ".svc", "others")
    assert (written.files, written.names[:1]) == (("tables/0002-others.sql",), ("table others",))
    assert set(names) <= set(written.left_out)
    assert set(unmigrated(project, project / ".svc")) == set(written.left_out)


def test_dropped_table_is_named_and_left_out(project: Path) -> None:
    run(project, "drop view short; drop table notes")
    written = write(project, project / ".svc", "less")
    assert (written.names, written.left_out) == (("view short (dropped)",), ("table notes (dropped)",))


def test_migration_written_by_hand_is_recorded_when_it_makes_the_tables_of_development(project: Path) -> None:
    change(project, RenameColumn("notes", "text", "words"))
    file = project / "tables" / "0002-words.sql"
    file.write_text("alter table notes rename column text to letters")
    with pytest.raises(TablesError, match=r"tables/0002-words\.sql is not applied here"):
        write(project, project / ".svc", "words")
    file.write_text("alter table notes rename column text to words")
    assert write(project, project / ".svc", "words").files == ("tables/0002-words.sql",)
    assert migrate(project, project / ".svc") == ()


def test_without_differences_nothing_is_written(project: Path) -> None:
    assert write(project, project / ".svc", "more").files == ()
    assert [each.name for each in find(project)] == ["tables/0001-notes.sql"]


def test_names_quotes_and_comments_are_no_difference(project: Path) -> None:
    run(project, "drop view short; create view SHORT AS select /* all */ [id] from `notes` where size<10")
    assert unmigrated(project, project / ".svc") == ()


def test_pending_migration_hides_what_it_would_change(project: Path) -> None:
    (project / "tables" / "0002-more.sql").write_text("create table more (id integer); drop index notes_text")
    run(project, "create table extra (id integer)")
    assert unmigrated(project, project / ".svc") == ("table extra",)


def test_migration_that_needs_a_table_of_development_is_an_error(project: Path) -> None:
    run(project, "create table extra (id integer)")
    (project / "tables" / "0002-more.sql").write_text("alter table extra add column name text")
    with pytest.raises(TablesError, match=r"tables/0002-more\.sql:1: no such table: extra"):
        unmigrated(project, project / ".svc")


def test_project_without_data_has_no_differences(tmp_path: Path) -> None:
    assert unmigrated(tmp_path, tmp_path / ".svc") == ()
    assert not (tmp_path / ".svc").exists()


def test_new_file_sorts_after_the_last_migration_and_one_that_cannot_is_an_error(project: Path) -> None:
    run(project, "create table extra (id integer)")
    (project / "tables" / "notes.sql").write_text("-- nothing")
    migrate(project, project / ".svc")
    with pytest.raises(
        TablesError, match=r"tables/0001-extra\.sql would not be the last migration: tables/notes\.sql"
    ):
        write(project, project / ".svc", "extra")
