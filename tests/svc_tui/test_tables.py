"""`svc tables` from the command line, on a project without a running engine."""

import io
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from doors.tables.sqlite.connections import open_owner
from svc_tui.main import run

Capture = pytest.CaptureFixture[str]


def write_project(folder: Path) -> Path:
    (folder / "site").mkdir()
    (folder / "svc.toml").write_text(
        "[project]\nname = 'shop'\n[resource.web]\nlane = 'static'\noutput = 'site'\n"
    )
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a table of two rows, created by commands."""
    folder = write_project(tmp_path_factory.mktemp("first"))
    insert = "insert into users (name, at) values ($1, {})"
    columns = (
        "id integer primary key, name text not null unique note 'as they, are called', "
        "at timestamp default now()"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in (
            ["create", "users", columns, "--note", "who is here"],
            ["query", insert.format("'2026-01-02T03:04:05.678Z'"), "Ada", "--write"],
            ["query", insert.format("null"), "Grace", "--write"],
        ):
            assert run(["tables", *words]) == 0
    return folder


@pytest.fixture
def users(project: Path, first: Path) -> Path:
    """A copy of `first` for one test."""
    shutil.copytree(first / ".svc", project / ".svc")
    return project


def svc(capsys: Capture, *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert run(["tables", *words]) == code, capsys.readouterr().err
    return capsys.readouterr()


def svc_json(capsys: Capture, *words: str) -> Any:
    return json.loads(svc(capsys, *words, "--json").out)


def test_list_without_tables_prints_a_hint(project: Path, capsys: Capture) -> None:
    result = svc(capsys, "list")
    assert result.out == "" and "svc tables create" in result.err
    assert svc_json(capsys, "list") == {"tables": []}
    assert not (project / ".svc" / "tables").exists()


def test_list_and_show_print_a_created_table(users: Path, capsys: Capture) -> None:
    assert svc(capsys, "list").out == "table\tkind\trows\tnote\nusers\ttable\t2\twho is here\n"
    assert svc(capsys, "show", "users").out.splitlines() == [
        "column\ttype\trules\tnote",
        "id\tinteger\tprimary key\t",
        "name\ttext\tnot null, unique\tas they, are called",
        "at\ttimestamp\tdefault now()\t",
    ]
    result = svc_json(capsys, "show", "users")
    assert (result["name"], result["rows"], result["key"]) == ("users", 2, ["id"])
    assert (users / ".svc" / ".gitignore").read_text() == "*\n"


def test_query_prints_csv_and_json(users: Path, capsys: Capture) -> None:
    sql = "select id, name, at from users order by id"
    assert svc(capsys, "query", sql).out == "id,name,at\n1,Ada,2026-01-02T03:04:05.678Z\n2,Grace,\n"
    lines = svc(capsys, "query", sql, "--json").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["Ada", "Grace"]
    assert (
        svc(capsys, "query", "select '' as a, null as b, 'x,\"y\"\n' as c").out == 'a,b,c\n"",,"x,""y""\n"\n'
    )
    assert json.loads(svc(capsys, "query", "select 9e999 as a", "--json").out) == {"a": "9e999"}


def test_document_and_its_numbers_are_printed_as_stored(project: Path, capsys: Capture) -> None:
    svc(capsys, "create", "docs", "id integer primary key, doc json, photo blob, ok boolean")
    document = '{"a": 123456789012345678.123,\n"b": [1.10, 1e999]}'
    insert = "insert into docs (doc, photo, ok) values ($1, x'00ff', true)"
    svc(capsys, "query", insert, document, "--write")
    select = "select doc, photo, ok from docs"
    line = document.replace("\n", " ")
    assert svc(capsys, "query", select, "--json").out == f'{{"doc": {line}, "photo": "AP8=", "ok": true}}\n'
    _, cells = svc(capsys, "query", select, "--csv").out.split("\n", 1)
    assert cells == '"{}",AP8=,true\n'.format(document.replace('"', '""'))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", "9223372036854775808"),
        ("007", "007"),
        ("1.5", 1.5),
        ("1.50", "1.50"),
        ("true", 1),
        ("null", None),
        ('"null"', "null"),
        ('{"a": 1}', '{"a": 1}'),
        ("ünï\ncode", "ünï\ncode"),
        ("", ""),
    ],
)
def test_query_values_have_the_type_of_their_text(
    project: Path, capsys: Capture, word: str, value: Any
) -> None:
    (line,) = svc(capsys, "query", "select $1 as v", "--json", "--", word).out.splitlines()
    assert json.loads(line) == {"v": value}


def test_number_beyond_a_real_is_not_written_as_infinity(project: Path, capsys: Capture) -> None:
    svc(capsys, "create", "t", "r real, doc json")
    assert (
        "1e400 is beyond"
        in svc(capsys, "query", "insert into t (r) values ($1)", "1e400", "--write", code=2).err
    )
    svc(capsys, "query", "insert into t values ($1, $2)", "9e999", '"1e400"', "--write")
    assert svc(capsys, "query", "select doc, r from t where doc = $1", "1e400").out == "doc,r\n1e400,9e999\n"


def test_query_accepts_a_blob_as_base64(users: Path, capsys: Capture) -> None:
    assert svc(capsys, "query", "select hex($1) as h", "base64:AP8=").out == "h\n00FF\n"
    assert "is not base64" in svc(capsys, "query", "select $1", "base64:=", code=2).err


def test_query_that_writes_needs_the_write_option(users: Path, capsys: Capture) -> None:
    assert "--write" in svc(capsys, "query", "delete from users", code=1).err
    assert "2 rows written" in svc(capsys, "query", "delete from users", "--write").err


def test_query_beyond_the_limit_warns(users: Path, capsys: Capture) -> None:
    result = svc(capsys, "query", "select id from users", "--limit", "1")
    assert result.out == "id\n1\n" and "the result ends after 1 row: the limit" in result.err


def test_query_on_a_terminal_strips_control_characters(users: Path, capsys: Capture) -> None:
    svc(capsys, "query", "update users set name = char(27) || '[31m' || $1 where id = 1", "表\nx", "--write")
    connection = open_owner(users / ".svc" / "tables" / "tables.db")
    connection.execute("alter table users add column photo blob")
    connection.execute("update users set name = ?, photo = x'0001' where id = 2", ("y" * (5 << 20),))
    connection.close()
    capsys.readouterr()
    assert (
        run(["--color", "always", "tables", "query", "select id, name, photo, at from users order by id"])
        == 0
    )
    output = capsys.readouterr().out
    assert "\x1b[31m" not in output and "�[31m表↵x" in output and len(output) < 2000
    assert "blob of 2 bytes" in output and "…" in output


def test_alter_applies_all_changes_or_none(users: Path, capsys: Capture) -> None:
    words = 'add age text default 7, alter age type integer, rename name to "full name"'
    svc(capsys, "alter", "users", words, ",", "alter", '"full name"', "set default 'it''s', set note people")
    result = svc_json(capsys, "show", "users")
    assert result["note"] == "people"
    assert [(each["name"], each["type"], each["default"]) for each in result["columns"][1::2]] == [
        ("full name", "text", "'it''s'"),
        ("age", "integer", "7"),
    ]
    failed = svc(capsys, "alter", "users", "drop", "age,", "drop", "nothing", "--yes", code=2)
    assert "column nothing does not exist" in failed.err
    assert svc_json(capsys, "show", "users") == result
    name = '"full name"'
    svc(
        capsys,
        "alter",
        "users",
        f"alter age drop default, alter {name} drop not null, alter {name} drop unique",
    )
    svc(capsys, "alter", "users", "drop primary key, set primary key age id, alter age set note years")
    result = svc_json(capsys, "show", "users")
    assert result["key"] == ["age", "id"] and result["columns"][3]["note"] == "years"
    assert "primary key 1" in svc(capsys, "show", "users").out


def test_rename_index_and_drop(users: Path, capsys: Capture) -> None:
    svc(capsys, "rename", "users", "people")
    svc(capsys, "index", "people", "at", "name", "--name", "by_time", "--unique")
    (index,) = svc_json(capsys, "show", "people")["indexes"]
    assert index == {"name": "by_time", "columns": ["at", "name"], "unique": True, "partial": False}
    assert "has no index other" in svc(capsys, "index", "people", "--drop", "other", code=1).err
    svc(capsys, "index", "people", "--drop", "by_time")
    assert svc_json(capsys, "show", "people")["indexes"] == []
    svc(capsys, "drop", "people", "--yes")
    assert svc_json(capsys, "list") == {"tables": []}


def test_drop_of_rows_needs_confirmation(
    users: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for words in (["drop", "users"], ["alter", "users", "drop", "at"]):
        assert "--yes" in svc(capsys, *words, code=2).err
    assert svc_json(capsys, "show", "users")["rows"] == 2
    assert svc(capsys, "create", "empty", "a", "text").out == ""
    svc(capsys, "drop", "empty")


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl"])
def test_export_and_import_of_a_table_round_trips(users: Path, capsys: Capture, ending: str) -> None:
    svc(capsys, "export", "users", f"users.{ending}")
    first = (users / f"users.{ending}").read_bytes()
    assert "imported 2 rows into users" in svc(capsys, "import", f"users.{ending}", "--replace").err
    svc(capsys, "export", "users", "again", "--format", ending)
    assert (users / "again").read_bytes() == first
    svc(capsys, "import", "copies", f"users.{ending}", "--create")
    assert svc_json(capsys, "show", "copies")["rows"] == 2


@pytest.mark.parametrize("ending", ["sql", "db"])
def test_export_and_import_of_all_tables_round_trips(users: Path, capsys: Capture, ending: str) -> None:
    svc(capsys, "export", "--all", f"all.{ending}")
    failed = svc(capsys, "import", f"all.{ending}", code=5)
    assert "already exists" in failed.err
    svc(capsys, "import", f"all.{ending}", "--replace")
    svc(capsys, "export", "--all", f"again.{ending}")
    assert (users / f"again.{ending}").read_bytes() == (users / f"all.{ending}").read_bytes()
    svc(capsys, "drop", "users", "--yes")
    svc(capsys, "import", f"all.{ending}")
    assert svc_json(capsys, "show", "users")["note"] == "who is here"


def test_database_that_a_program_has_open_is_refused_until_it_is_complete(
    project: Path, capsys: Capture
) -> None:
    with closing(sqlite3.connect("app.db", isolation_level=None)) as program:
        program.execute("pragma journal_mode = wal")
        program.execute("create table orders (id integer primary key)")
        program.execute("pragma wal_checkpoint")
        program.execute("insert into orders values (1), (2)")
        assert "changes are in app.db-wal" in svc(capsys, "import", "app.db", code=5).err
        with closing(sqlite3.connect("copy.db")) as copy:
            program.backup(copy)
        assert "imported 2 rows" in svc(capsys, "import", "copy.db").err
    assert "imported 2 rows" in svc(capsys, "import", "app.db", "--replace").err


def test_database_amid_a_transaction_is_refused(project: Path, capsys: Capture) -> None:
    with closing(sqlite3.connect("app.db", isolation_level=None)) as program:
        program.execute("pragma journal_mode = persist")
        program.execute("create table orders (id integer primary key)")
        assert Path("app.db-journal").exists()
        assert "imported 0 rows" in svc(capsys, "import", "app.db").err
        program.execute("pragma cache_spill = 1")
        program.execute("pragma cache_size = 1")
        program.execute("begin")
        program.execute(
            "insert into orders with recursive n (n) as (select 1 union all select n + 1 from n limit 100000)"
            " select n from n"
        )
        assert "changes are in app.db-journal" in svc(capsys, "import", "app.db", "--replace", code=5).err


def test_export_leaves_permissions_of_a_file_as_they_are(users: Path, capsys: Capture) -> None:
    (users / "private.csv").touch(0o600)
    svc(capsys, "export", "users", "private.csv")
    svc(capsys, "export", "users", "new.csv")
    modes = [(users / name).stat().st_mode & 0o777 for name in ("private.csv", "new.csv")]
    mask = os.umask(0)
    os.umask(mask)
    assert modes == [0o600, 0o666 & ~mask]


def test_export_writes_through_links_pipes_and_devices(users: Path, capsys: Capture) -> None:
    (users / "elsewhere").mkdir()
    (users / "link.csv").symlink_to("elsewhere/users.csv")
    svc(capsys, "export", "users", "link.csv")
    assert (users / "link.csv").is_symlink() and (users / "elsewhere" / "users.csv").stat().st_size > 50
    os.mkfifo(users / "pipe")
    (users / "device").symlink_to("/dev/full")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        svc(capsys, "export", "users", "pipe", "--format", "csv")
        assert reader.stdout is not None
        assert reader.stdout.read() == (users / "elsewhere" / "users.csv").read_bytes()
    assert (users / "pipe").is_fifo()
    failed = svc(capsys, "export", "users", "device", "--format", "csv", code=1)
    assert "No space left" in failed.err
    assert (users / "device").is_symlink() and Path("/dev/full").is_char_device()


def test_import_preview_shows_types_and_imports_nothing(project: Path, capsys: Capture) -> None:
    (project / "items.csv").write_text("id,price,what\n1,2.5,a\n2,3,\n")
    result = svc(capsys, "import", "items.csv", "--preview")
    assert result.out == "id integer primary key\nprice real\nwhat text\n" and "2 rows" in result.err
    assert svc_json(capsys, "import", "items.csv", "--preview")["rows"] == [
        ["1", "2.5", "a"],
        ["2", "3", None],
    ]
    assert svc_json(capsys, "list") == {"tables": []}


def test_import_of_an_invalid_row_names_its_line(users: Path, capsys: Capture) -> None:
    (users / "users.csv").write_text("id,name\n7,Alan\nseven,Edsger\n")
    failed = svc(capsys, "import", "users.csv", code=1).err
    assert "line 3" in failed and "seven" in failed and "hint" in failed
    assert svc_json(capsys, "show", "users")["rows"] == 2


def test_migrations_are_planned_and_applied_once(project: Path, capsys: Capture) -> None:
    assert "no migrations" in svc(capsys, "migrate").err
    (project / "tables").mkdir()
    (project / "tables" / "1.sql").write_text("create table a (x integer) strict;")
    assert svc(capsys, "migrate", "--plan").out == "tables/1.sql\n"
    assert svc_json(capsys, "migrate", "--plan") == {"plan": True, "new": ["tables/1.sql"], "applied": []}
    assert svc(capsys, "migrate").out == "tables/1.sql\n"
    result = svc(capsys, "migrate")
    assert result.out == "" and "no pending migrations; 1 applied before" in result.err
    (project / "tables" / "2.SQL").write_text("create table b (y);")
    assert "tables/2.SQL is not applied" in svc(capsys, "migrate").err
    (project / "tables" / "2.sql").write_text("\ncreate tabel b (y);")
    assert "tables/2.sql:2: " in svc(capsys, "migrate", code=1).err


def test_migration_is_written_from_the_difference_and_recorded(project: Path, capsys: Capture) -> None:
    svc(capsys, "create", "users", "id integer primary key, name text")
    result = svc(capsys, "migration", "users")
    assert result.out == "tables/0001-users.sql\n" and "table users" in result.err
    assert 'CREATE TABLE "users"' in (project / "tables" / "0001-users.sql").read_text()
    assert "no pending migrations; 1 applied before" in svc(capsys, "migrate").err
    assert "nothing to write" in svc(capsys, "migration", "users").err
    svc(capsys, "alter", "users", "drop name", "--yes")
    result = svc(capsys, "migration", "less")
    assert result.out == "" and "column users.name (dropped)" in result.err
    (project / "tables" / "0002-less.sql").write_text("alter table users drop column name")
    assert "tables/0002-less.sql:1: " in svc(capsys, "migrate", code=1).err
    result = svc(capsys, "migration", "less")
    assert result.out == "tables/0002-less.sql\n" and "recorded as applied" in result.err
    assert "no pending migrations; 2 applied before" in svc(capsys, "migrate").err


@pytest.mark.parametrize("words", [["migration", "../x"], ["--service", "migration", "x"]])
def test_migration_with_a_path_or_a_service_is_a_usage_error(
    project: Path, words: list[str], capsys: Capture
) -> None:
    assert "svc tables migration add-color" in svc(capsys, *words, code=2).err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["lsit"], 2, "list"),
        (["show", "usres"], 1, "Available: users"),
        (["create", "users", "a text"], 5, "already"),
        (["create", "t", "a"], 2, "NAME TYPE"),
        (["create", "t", "a:text,key"], 2, "Separate name and type by a space"),
        (["create", "t", "a", "txt"], 2, "Did you mean text?"),
        (["create", "t", "a", "text", "uniqe"], 2, "Did you mean unique?"),
        (["create", "t", "a text unique=1"], 2, "unknown rule: unique=1"),
        (["create", "t", "a text required"], 2, "Did you mean not null?"),
        (["create", "t", "a text default 'open"], 2, "a quote is not closed"),
        (["create", "t", "a integer default x"], 1, "neither now() nor one value"),
        (["create", "_svc_x", "a text"], 1, "reserved"),
        (["alter", "users", "ad", "x", "text"], 2, "Did you mean add?"),
        (["alter", "users", "rename", "name"], 2, "rename NAME to NEW"),
        (["alter", "users", "retype", "name", "integer"], 2, "Did you mean alter NAME type TYPE?"),
        (["alter", "users", ","], 2, "the changes are missing"),
        (["alter", "users", "alter nme set default x"], 2, "column nme does not exist"),
        (["index", "users"], 2, "--drop"),
        (["query", "select"], 1, "incomplete input"),
        (["query", "select $1"], 1, "no values"),
        (["query", "select 1", "--json", "--csv"], 2, "exclude each other"),
        (["query", "insert into users (name) values ('Ada')", "--write"], 1, "users.name"),
        (["import", "missing.csv"], 1, "cannot read missing.csv"),
        (["import", "svc.toml"], 2, "--format"),
        (["import", "users", "svc.toml", "--format", "xls"], 2, 'unknown format "xls"'),
        (["import", "-"], 2, "--format"),
        (["import", "a", "b", "c.csv"], 2, "one table and one file"),
        (["import", "other", "svc.toml", "--format", "csv"], 1, "--create"),
        (["export"], 2, "no table was given"),
        (["export", "other"], 1, "table other does not exist"),
        (["export", "--all", "x.csv"], 2, "one table, not all"),
        (["export", "users", "no/such/folder.csv"], 1, "cannot write no/such/folder.csv"),
    ],
)
def test_invalid_arguments_fail_with_a_hint(
    users: Path, capsys: Capture, words: list[str], code: int, message: str
) -> None:
    failed = svc(capsys, *words, code=code)
    assert message in failed.err and "Traceback" not in failed.err and failed.out == ""
    assert svc_json(capsys, "list")["tables"][0]["rows"] == 2
    assert {path.name for path in users.iterdir()} == {".svc", "site", "svc.toml"}


def test_damaged_database_is_reported_and_unchanged(project: Path, capsys: Capture) -> None:
    path = project / ".svc" / "tables" / "tables.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage " * 1000)
    for words in (["list"], ["query", "select 1"], ["create", "t", "a text"], ["export", "--all"]):
        assert "tables/tables.db is damaged" in svc(capsys, *words, code=1).err
    assert path.read_bytes() == b"garbage " * 1000


@pytest.mark.slow
@pytest.mark.parametrize("longest", [100_000, 2_000_000], ids=["while it is taken", "while it is imported"])
def test_import_on_a_full_disk_fails_and_changes_nothing(users: Path, capsys: Capture, longest: int) -> None:
    (users / "more.csv").write_text("name\n" + "".join(f"{n:01000}\n" for n in range(1900)))
    process = subprocess.run(
        [sys.executable, "-m", "svc_tui", "tables", "import", "users", "more.csv"],
        cwd=users,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest)),
    )
    assert (
        process.returncode == 1 and "Free disk space" in process.stderr and "Traceback" not in process.stderr
    )
    assert svc(capsys, "list").out.splitlines()[1].split()[:3] == ["users", "table", "2"]


def test_tables_outside_of_a_project_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "svc.toml" in svc(capsys, "list", code=2).err


def test_names_that_are_not_utf_8_are_refused(
    users: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    name = os.fsdecode(b"us\xe9rs")
    (users / f"{name}.csv").write_text("id,name\n7,Eve\n")
    assert "the table needs a name" in svc(capsys, "import", f"{name}.csv", "--create", code=2).err
    assert "imported 1 row into users" in svc(capsys, "import", "users", f"{name}.csv").err
    for words in (["show", name], ["query", f"select '{name}'"], ["create", name, "id integer"]):
        assert "udce9" in svc(capsys, *words, code=1).err
    shutil.copytree(users, users / name)
    monkeypatch.chdir(users / name)
    assert "the path of the project is not UTF-8" in svc(capsys, "list", code=1).err


def test_blame_of_an_unknown_key_says_since_when_writes_are_known(
    users: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("svc_tui.terminal.stdout.is_terminal", lambda: True)
    result = svc(capsys, "blame", "users", "99")
    assert result.out == ""
    assert "no write of a row with the key 99 is known; the history begins at 20" in result.err
    assert "what was written before is not known" in svc(capsys, "blame", "users", "1", "name").err


def test_blame_with_a_wrong_key_shows_an_example(project: Path, capsys: Capture) -> None:
    columns = "a text not null, b integer not null, v text"
    svc(capsys, "create", "pair", columns)
    svc(capsys, "alter", "pair", "set primary key a b")
    svc(capsys, "query", "insert into pair values ('x', 2, 'y')", "--write")
    assert "x" in svc(capsys, "blame", "pair", '["x",2]', "a").out
    for key in ("x", '["x"]'):
        assert (
            """Pass a, b as a list in JSON, such as '["x", 12]'."""
            in svc(capsys, "blame", "pair", key, code=1).err
        )
    wrong = svc(capsys, "blame", "pair", "[x,2]", code=1).err
    assert """Pass its values, such as '[12]' or '["x", 12]'.""" in wrong
