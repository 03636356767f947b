import json
import re
import subprocess
from pathlib import Path

import pytest

from engine.manifest.load import load
from engine.manifest.model import Mount
from svc_tui.main import run
from svc_tui.project.resource_starter import STARTERS

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = """[project]
name = "app"

[resource.front]  # the page
lane = "static"
public = true
output = "front"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "svc.toml").write_text(MANIFEST)
    (tmp_path / "front").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add(*arguments: str) -> int:
    return run(["add", *arguments])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_add_mounts_a_resource_with_its_sources_and_a_table(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("js", "api") == 0
    captured = capsys.readouterr()
    assert '+mounts = { "/api/*" = "api" }' in captured.out
    assert "api answers at /api/hello\n" in captured.err
    assert add("go", "search", "--mount", "/v1/*", "--on", "api", "--table", "documents") == 0
    assert add("rust", "count", "-t", "hits", "--json") == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer["files"] == ["count/src/lib.rs", "tables/0002-hits.sql"]
    assert answer["path"] == "/count/hits"
    assert load(project).front is not None
    assert add("static", "docs", "--public") == 0
    captured = capsys.readouterr()
    assert "docs answers at / of docs--app.localhost\n" in captured.err
    assert 'Add to [project] in svc.toml: front = "front"' in captured.err
    resources = load(project).resources
    assert {name: resource.lane for name, resource in resources.items()} == {
        "front": "static", "api": "js", "search": "go", "count": "rust", "docs": "static"
    }  # fmt: skip
    assert resources["front"].mounts == (Mount("/api/*", "api"), Mount("/count/*", "count"))
    assert resources["api"].mounts == (Mount("/v1/*", "search"),)
    assert resources["docs"].public
    assert resources["docs"].output == project / "docs"
    assert (project / "svc.toml").read_text().startswith(MANIFEST.rstrip())
    assert (project / "api" / ".gitignore").read_text() == "node_modules/\n"
    assert "'/api/hello'" in (project / "api" / "src" / "index.js").read_text()
    assert "GET /v1/documents" in (project / "search" / "main.go").read_text()
    assert (project / "search" / "go.mod").read_text().startswith("module search\n")
    assert 'name = "count"' in (project / "count" / "Cargo.toml").read_text()
    assert "stack-size" in (project / "count" / ".cargo" / "config.toml").read_text()
    assert 'create table "documents"' in (project / "tables" / "0001-documents.sql").read_text()
    texts = contents(project).values()
    assert not any(b"__NAME__" in text or b"__PREFIX__" in text or b"__TABLE__" in text for text in texts)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["jss", "api"], 2, 'Did you mean "js"?'),
        (["js", "My Api"], 2, "a-z"),
        (["next", "web"], 2, "Next.js cannot run on svc"),
        (["sveltekit", "web", "--on", "front"], 2, "its own address"),
        (["js", "front"], 5, "front/ exists already"),
        (["js", "api", "--table", "a b"], 2, "not a valid table name"),
        (["js", "api", "--table", "sqlite_x"], 2, "not sqlite_"),
        (["js", "api", "--mount", "/x"], 2, "/x/*"),
        (["js", "api", "--mount", "/it's/*"], 2, "cannot contain"),
        (["js", "api", "--mount", "/api/*", "--public"], 2, "its own address"),
        (["js", "api", "--on", "fromt"], 2, 'Did you mean "front"?'),
        (["js", "web2", "--on", "nope"], 2, "Possible: front.\n"),
        (["js", "web2", "--on", "web2"], 2, "Possible: front.\n"),
        (["static", "docs", "--table", "x"], 2, "Choose js, go or rust, or leave out --table."),
    ],
)
def test_add_with_invalid_arguments_changes_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    before = contents(project)
    assert add(*arguments) == code
    assert words in capsys.readouterr().err
    assert contents(project) == before


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ('-- Notes\nCREATE TABLE IF NOT EXISTS "Notes" (id integer);', 5),
        ("create virtual table main.[notes] using fts5(text);", 5),
        ("create table old (id integer); alter table old rename to notes; alter table notes add text;", 5),
        ("create table t (id integer); create index notes on t (id);", 5),
        ("create table notes (id integer); drop table if exists notes;", 0),
        ("create table notes (id integer); alter table notes rename to other;", 0),
        ("create table notes_2 (text text default 'create table notes'); -- create table notes", 0),
    ],
)
def test_add_refuses_a_table_of_an_earlier_migration(
    project: Path, capsys: pytest.CaptureFixture[str], sql: str, code: int
) -> None:
    (project / "tables").mkdir()
    (project / "tables" / "0001-first.sql").write_text(sql)
    (project / "tables" / "0002-empty.sql").touch()
    before = contents(project)
    assert add("js", "api", "--table", "notes") == code
    if code:
        errors = capsys.readouterr().err
        assert "tables/0001-first.sql creates notes already" in errors and "without --table" in errors
        assert contents(project) == before


def test_add_with_plan_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(project)
    assert add("js", "api", "--plan") == 0
    captured = capsys.readouterr()
    assert "+[resource.api]" in captured.out
    assert "would create api/src/index.js" in captured.err
    assert contents(project) == before


def test_add_static_says_why_the_folder_is_repeated(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("static", "admin") == 0
    err = capsys.readouterr().err
    assert "created admin/admin/index.html" in err and "requests have the path /admin/" in err


def test_add_removes_its_files_after_a_failure(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tables").mkdir()
    (project / "tables" / "users.sql").write_text("create table users (id integer primary key);")
    before = contents(project)
    assert add("js", "api", "--table", "notes") == 5
    assert "would not be the last migration" in capsys.readouterr().err
    (project / "tables" / "users.sql").unlink()
    (project / "tables").rmdir()
    (project / "tables").write_text("not a folder")
    assert add("js", "api", "--table", "notes") == 1
    assert "tables cannot be read as a folder" in capsys.readouterr().err
    del before[str(project / "tables" / "users.sql")]
    assert contents(project) == {**before, str(project / "tables"): b"not a folder"}


FRAMEWORKS = [name for name, starter in STARTERS.items() if starter.framework]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_add_of_a_framework_makes_files_and_a_server_that_they_fall_back_to(
    project: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert add(name, "my-shop") == 0
    resources = load(project).resources
    shop, server = resources["my-shop"], resources["my-shop-server"]
    assert (shop.public, shop.fallback, server.public) == (True, "my-shop-server", False)
    assert server.env == {"NODE_ENV": "production"} and shop.build is not None
    assert 'create table "my_shop"' in (project / "tables" / "0001-my_shop.sql").read_text()
    ignored = (project / "my-shop" / ".gitignore").read_text().split()
    assert "node_modules" in ignored
    package = json.loads((project / "my-shop" / "package.json").read_text())
    pinned = {**package["dependencies"], **package.get("devDependencies", {})}
    assert all(version[0].isdigit() for version in pinned.values() if version != "file:svc-guest")
    texts = contents(project).values()
    assert not any(b"__NAME__" in text or b"__TABLE__" in text for text in texts)
    assert add(name, "my-shop") == 5


def test_module_of_frameworks_has_the_exports_of_the_guest_library() -> None:
    library = (ROOT / "lanes/js/guest/index.js").read_text()
    lines = re.findall(r"^export (?:\* as|\{|function|async function|const) ([\w, ]+)", library, re.MULTILINE)
    stand_in = (ROOT / "svc_tui/starters/framework/svc-guest/index.js").read_text()
    lists = re.findall(r"^export const \[([\w, ]+)\]", stand_in, re.MULTILINE)
    names, known = (
        sorted(name.strip() for text in texts for name in text.split(",")) for texts in (lines, lists)
    )
    assert [name.split()[0] for name in names] == known


@pytest.mark.parametrize("name", ["jobs.add", "tables.Error", "json"])
def test_module_of_frameworks_names_the_function_that_a_build_calls(name: str) -> None:
    module = (ROOT / "svc_tui/starters/framework/svc-guest/index.js").as_uri()
    script = f"import * as guest from {json.dumps(module)}; new guest.{name}();"
    process = subprocess.run(
        ["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=False
    )
    assert f"{name} of @svc/guest works in requests only" in process.stderr
