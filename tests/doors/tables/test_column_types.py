"""Column types that are added to the registry only."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doors.tables.types.registry import TYPES, ColumnType
from screens.tables.cells import read
from svc_tui.main import run
from svc_tui.tables_syntax import ColumnTypes, parse_columns
from tests.doors.tables.tables_door import Tables

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]
AMBIGUOUS = frozenset({"text", "json", "real", "integer", "boolean", "date"})
"""Names that are also words of JSON, of file formats and of SQL. Only comparisons with a type count."""


def _parse_color(text: str) -> str:
    if not re.fullmatch("#[0-9a-f]{6}", text.lower()):
        raise ValueError("is not a color such as #ffcc00")
    return text.lower()


COLOR = ColumnType(
    name="color",
    form="format",
    parse=_parse_color,
    check="{0} GLOB '#[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]'",
    infer=lambda text: bool(re.fullmatch("#[0-9a-f]{6}", text)),
    infer_rank=7,
    pattern="#[0-9A-Fa-f]{6}",
    example="#ffcc00",
    width=7,
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "svc.toml").write_text(
        "[project]\nname = 'shop'\n[resource.web]\nlane = 'static'\noutput = 'site'\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def svc(capsys: Capture, *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run(["tables", *words]) == code, capsys.readouterr().err
    return capsys.readouterr()


def rows(capsys: Capture, sql: str) -> list[Any]:
    return [json.loads(line) for line in svc(capsys, "query", sql, "--json").out.splitlines()]


def test_registered_type_works_in_cli_api_and_console(
    project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TYPES, "color", COLOR)
    svc(capsys, "create", "paints", "id integer primary key, shade color not null default #FFCC00")
    assert "shade\tcolor\tnot null, default '#ffcc00'" in svc(capsys, "show", "paints").out
    (project / "more.csv").write_text("shade,name\n#00ff00,green\n#0000FF,blue\n")
    svc(capsys, "alter", "paints", "add name text")
    svc(capsys, "import", "paints", "more.csv")
    assert [row["shade"] for row in rows(capsys, "select shade from paints")] == ["#00ff00", "#0000ff"]
    (project / "bad.csv").write_text("shade\nred\n")
    assert "is not a color such as #ffcc00" in svc(capsys, "import", "paints", "bad.csv", code=1).err
    failed = svc(capsys, "query", "insert into paints (shade) values ('red')", "--write", code=1)
    assert "CHECK" in failed.err
    svc(capsys, "alter", "paints", "alter name type color", code=1)
    (project / "swatches.csv").write_text("shade\n#123456\n")
    svc(capsys, "import", "swatches.csv", "--create")
    assert "shade\tcolor" in svc(capsys, "show", "swatches").out
    svc(capsys, "export", "--all", "all.sql")
    svc(capsys, "drop", "swatches", "--yes")
    svc(capsys, "import", "all.sql", "--replace")
    assert "shade\tcolor" in svc(capsys, "show", "swatches").out


def test_registered_type_works_in_the_console_syntax(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import asdict

    from doors.tables.api.routes import list_types

    monkeypatch.setitem(TYPES, "color", COLOR)
    types = ColumnTypes.from_document(asdict(list_types()))
    (column,) = parse_columns("shade color default #FFCC00", types)
    assert column == {"name": "shade", "type": "color", "default": "'#FFCC00'"}
    assert read("#ffcc00", types["color"]) == "#ffcc00"
    with pytest.raises(ValueError, match="write a color as #ffcc00"):
        read("red", types["color"])


def test_date_in_cli_defaults_files_and_retyping(project: Path, capsys: Capture) -> None:
    svc(capsys, "create", "events", "id integer primary key, day date not null default now(), what text")
    svc(capsys, "query", "insert into events (what) values ('today')", "--write")
    (row,) = rows(capsys, "select day, day = substr(now(), 1, 10) as today from events")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["day"]) and row["today"] == 1
    (project / "events.csv").write_text("id,day,what\n7,2026-01-31,a\n8,2024-02-29,b\n9,,c\n")
    svc(capsys, "import", "events", "events.csv", "--replace")
    assert "2026-01-31" in svc(capsys, "export", "events", "--format", "jsonl").out
    for bad in ("2026-02-30", "2026-01-31T10:00", "soon"):
        (project / "bad.csv").write_text(f"day\n{bad}\n")
        assert "line 2" in svc(capsys, "import", "events", "bad.csv", code=1).err
    svc(capsys, "import", "inferred", "events.csv", "--create")
    assert "day\tdate\t" in svc(capsys, "show", "inferred").out
    svc(capsys, "alter", "inferred", "alter day type timestamp")
    assert rows(capsys, "select day from inferred where id = 8") == [{"day": "2024-02-29T00:00:00.000Z"}]
    svc(capsys, "alter", "inferred", "alter day type date")
    assert rows(capsys, "select day from inferred where id = 8") == [{"day": "2024-02-29"}]
    svc(capsys, "query", "insert into events (day) values ('2026-2-3')", "--write", code=1)
    for ending in ("sql", "db"):
        svc(capsys, "export", "--all", f"all.{ending}")
        svc(capsys, "import", f"all.{ending}", "--replace")
        assert "day\tdate\tnot null, default now()" in svc(capsys, "show", "events").out


def test_date_is_a_json_string_for_guests(tables: Tables) -> None:
    tables.schema("create table events (day text check (day is strftime('%Y-%m-%d', day)), lax date)")
    tables.exec("insert into events values ($1, $2)", "2026-01-31", "2026-1-3")
    assert tables.query("select day, lax from events").rows == [{"day": "2026-01-31", "lax": "2026-1-3"}]


def test_no_product_code_outside_the_registry_names_a_type() -> None:
    folders = ("doors/tables", "screens/tables")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    files += [ROOT / "svc_tui" / "tables_syntax.py", ROOT / "svc_tui" / "commands" / "tables.py"]
    registry = ROOT / "doors" / "tables" / "types" / "registry.py"
    named = [
        f"{path.relative_to(ROOT)}:{line}" for path in files if path != registry for line in _named(path)
    ]
    assert named == []


def _named(path: Path) -> Iterator[int]:
    """Yield the lines that name a type: any string of its name, or a comparison with a type's name."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Constant(value=str() as text) if text in TYPES.keys() - AMBIGUOUS:
                yield node.lineno
            case ast.Compare() if re.search(r"\btype\b", ast.unparse(node)) and _has_type(node):
                yield node.lineno
            case ast.Match() if re.search(r"\btype$", ast.unparse(node.subject)):
                yield from (case.pattern.lineno for case in node.cases if _has_type(case.pattern))
            case ast.Dict() if len([key for key in node.keys if key and _has_type(key)]) > 1:
                yield node.lineno
            case ast.Tuple() | ast.Set() | ast.List() if len([i for i in node.elts if _has_type(i)]) > 1:
                yield node.lineno


def _has_type(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Constant) and each.value in TYPES for each in ast.walk(node))
