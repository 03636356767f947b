"""`svc dev` applies a project's migrations at its start and when they are saved."""

from pathlib import Path

import pytest

from tests.support.dev_server import dev_server, save

pytestmark = pytest.mark.slow
MANIFEST = '[project]\nname = "app"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "web"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "süß und weit"
    (folder / "web").mkdir(parents=True)
    (folder / "tables").mkdir()
    (folder / "svc.toml").write_text(MANIFEST)
    (folder / "web" / "index.html").write_text("<h1>hello</h1>")
    (folder / "tables" / "001-users.sql").write_text("create table users (id integer primary key);\n")
    return folder


def test_migrations_are_applied_once_and_faulty_ones_change_nothing(project: Path, home: Path) -> None:
    tables = project / "tables"
    with dev_server(project, home) as server:
        server.wait_for(r"tables/001-users\.sql applied")
        start = len(server.lines)
        second = tables / "002-notes.sql"
        save(second, "create table notes (id integer primary key);\ncreate tabel mistakes (a);\n")
        server.wait_for(r"tables/002-notes\.sql:2", after=start)
        server.wait_for("the tables are unchanged", after=start)
        start = len(server.lines)
        save(second, "create table notes (id integer primary key);\n")
        server.wait_for(r"tables/002-notes\.sql applied", after=start)
        assert server.get("/").status_code == 200
        assert server.stop() == 0
    with dev_server(project, home) as server:
        assert not any("applied" in line for line in server.lines)
        start = len(server.lines)
        save(tables / "001-users.sql", "create table users (id integer primary key, name text);\n")
        server.wait_for(r"warning: tables/001-users\.sql was edited after it was applied", after=start)
        server.wait_for("new file that comes after tables/002-notes", after=start)
        save(tables / "003-tags.sql", "create table tags (id integer primary key);\n")
        server.wait_for(r"tables/003-tags\.sql applied", after=start)


def test_migrations_in_a_new_folder_are_applied(project: Path, home: Path) -> None:
    tables = project / "tables"
    (tables / "001-users.sql").unlink()
    tables.rmdir()
    with dev_server(project, home) as server:
        tables.mkdir()
        save(tables / "001-late.sql", "create table late (id integer primary key);\n")
        server.wait_for(r"tables/001-late\.sql applied")
        (tables / "001-late.sql").unlink()
        tables.rmdir()
        start = len(server.lines)
        tables.mkdir()
        save(tables / "002-later.sql", "create table later (id integer primary key);\n")
        server.wait_for(r"tables/002-later\.sql applied", after=start)
