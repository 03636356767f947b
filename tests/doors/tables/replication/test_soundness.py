"""Tables that templates and guides create: a fleet replicates them."""

import asyncio
import re
from contextlib import closing
from pathlib import Path

import pytest

from doors.tables.replication.errors import ReplicationError
from doors.tables.replication.recorder import unsound_tables
from doors.tables.schema.change import CreateTable, RetypeColumn, SetPrimaryKey, apply
from doors.tables.sqlite.catalog import Column
from doors.tables.sqlite.connections import open_owner
from svc_tui.serve.storage import check_replicable
from tests.support.tracked import ROOT

PAGES = [page for page in (ROOT / "docs").rglob("*.md") if "create table" in page.read_text().lower()]
SCRIPTS = [*(ROOT / "sample-apps").glob("*/tables/*.sql"), *(ROOT / "svc_tui" / "starters").glob("*.sql")]
BLOCK = re.compile(r"^```sql[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^create table .*?\);", re.MULTILINE | re.DOTALL | re.IGNORECASE)


def statements(path: Path) -> list[str]:
    """Return the statements of a script or of the SQL blocks of a page that create tables."""
    text = path.read_text()
    return TABLE.findall("".join(BLOCK.findall(text)) if path.suffix == ".md" else text)


@pytest.mark.parametrize("path", [*PAGES, *SCRIPTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_of_templates_and_guides_can_be_replicated(tmp_path: Path, path: Path) -> None:
    for number, statement in enumerate(statements(path)):
        with closing(open_owner(tmp_path / f"{number}.db")) as connection:
            connection.execute(statement)
            assert unsound_tables(connection) == {}, statement


def test_tables_that_svc_creates_and_changes_can_be_replicated(tmp_path: Path) -> None:
    text = Column("name", "text", nullable=False, primary_key=True)
    number = Column("number", "integer", primary_key=True)
    flag = Column("flag", "boolean", primary_key=True)
    with closing(open_owner(tmp_path / "tables.db")) as connection:
        for at, columns in enumerate([(text,), (number,), (flag,), (text, number)]):
            apply(connection, [CreateTable(f"t{at}", columns)])
        connection.execute("insert into t1 values (3)")
        assert unsound_tables(connection) == {}
        apply(connection, [RetypeColumn("t1", "number", "text"), RetypeColumn("t0", "name", "integer")])
        assert connection.execute("select * from t1").fetchall() == [("3",)]
        assert connection.execute("insert into t0 default values returning name").fetchall() == [(1,)]
        apply(connection, [SetPrimaryKey("t1", ()), SetPrimaryKey("t3", ("number",))])
        apply(connection, [SetPrimaryKey("t1", ("number",))])
        assert unsound_tables(connection) == {}
        connection.execute("create table foreign_made (k text primary key)")
        apply(connection, [SetPrimaryKey("foreign_made", ()), SetPrimaryKey("foreign_made", ("k",))])
        assert unsound_tables(connection) == {}


def test_tables_of_all_projects_are_checked_before_a_fleet_begins(tmp_path: Path) -> None:
    projects = tmp_path / "projects"
    for project, statement in [
        ("bank", "create table sets (id text not null primary key); create table f (id integer primary key)"),
        ("shop", "create table names (name text collate nocase primary key)"),
        ("sound", "create table t (v integer primary key); create virtual table words using fts5(text)"),
    ]:
        (projects / project / "tables").mkdir(parents=True)
        with closing(open_owner(projects / project / "tables" / "tables.db")) as connection:
            connection.execute(statement)
    with pytest.raises(ReplicationError, match="service: sets of bank, names of shop") as refused:
        asyncio.run(check_replicable(tmp_path))
    assert (
        "In bank: Add WITHOUT ROWID to the CREATE TABLE of sets. In shop: Remove it from name,"
        in refused.value.hint
    )
    for project in ("bank", "shop"):
        with closing(open_owner(projects / project / "tables" / "tables.db")) as connection:
            connection.execute(f"drop table {'sets' if project == 'bank' else 'names'}")
    asyncio.run(check_replicable(tmp_path))


def test_statements_of_templates_and_guides_are_found() -> None:
    found = [statement for path in (*PAGES, *SCRIPTS) for statement in statements(path)]
    assert len(found) > 8
