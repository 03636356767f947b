"""Tables that templates and guides create: a fleet replicates them."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from doors.tables.replication.soundness import unsound_tables
from doors.tables.sqlite.connections import open_owner
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


def test_statements_of_templates_and_guides_are_found() -> None:
    found = [statement for path in (*PAGES, *SCRIPTS) for statement in statements(path)]
    assert len(found) > 8
