"""`svc tables` while `svc dev` serves: each sees the writes of the other at once."""

import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from svc_tui.main import run
from tests.support.dev_server import DevServer, dev_server
from tests.support.service import prepare

pytestmark = pytest.mark.slow

MANIFEST = """[project]
name = "shop"

[resource.api]
lane = "js"
public = true
workdir = "api"
"""
HANDLER = """import { json, tables } from '@svc/guest';

export default {
  async fetch(request) {
    if (request.method === 'GET') return json(await tables.query`select * from notes order by id`);
    const text = await request.text();
    const { changes } = await tables.exec`insert into notes (text) values (${text})`;
    return json({ changes }, { status: 201 });
  },
};
"""


def create(folder: Path) -> Path:
    """Create a project whose guest reads and writes the table `notes`."""
    (folder / "api").mkdir(parents=True)
    (folder / "tables").mkdir()
    (folder / "svc.toml").write_text(MANIFEST)
    (folder / "api" / "index.js").write_text(HANDLER)
    (folder / "tables" / "001.sql").write_text(
        "create table notes (id integer primary key, text text) strict;\n"
    )
    return folder


@pytest.fixture(scope="module", params=[pytest.param("1", marks=pytest.mark.nightly), "2"])
def workers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, workers: str) -> Path:
    return create(tmp_path_factory.mktemp("shop") / f"shop ü {workers}")


@pytest.fixture(scope="module")
def server(shop: Path, home: Path, workers: str) -> Iterator[DevServer]:
    """A server for all tests; the last one stops it."""
    with dev_server(shop, home, "--workers", workers) as server:
        yield server


def tables(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    """Run `svc tables` as a process; return its output."""
    command = [sys.executable, "-m", "svc_tui", "tables", *words]
    process = subprocess.run(command, cwd=folder, capture_output=True, check=False, input=stdin)
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout


Svc = Callable[..., bytes]


@pytest.fixture
def svc(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Svc:
    """Run `svc` in a folder, in the test process, which is faster."""

    def call(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
        monkeypatch.chdir(folder)
        capsysbinary.readouterr()
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            assert run([*words]) == 0, capsysbinary.readouterr().err
        return capsysbinary.readouterr().out

    return call


def rows(folder: Path, sql: str) -> list[Any]:
    shown = prepare(folder, os.environ, "tables", "query", sql, "--json")
    return [json.loads(line) for line in shown.splitlines()]


def post(server: DevServer, text: str) -> None:
    answer = httpx.post(server.url, content=text.encode(), timeout=60)
    assert answer.status_code == 201, answer.text


def notes(server: DevServer) -> list[str]:
    answer = server.get("/")
    assert answer.status_code == 200, answer.text
    return [row["text"] for row in answer.json()]


def test_guests_write_while_a_file_is_imported_and_an_export_stops_at_a_closed_pipe(
    server: DevServer, shop: Path
) -> None:
    text = b"text\n" + b"".join(b"row %d\n" % number for number in range(100_000))
    stop = threading.Event()
    written = 0

    def work() -> None:
        nonlocal written
        while not stop.is_set():
            post(server, "meanwhile")
            written += 1

    post(server, "before")
    writer = threading.Thread(target=work)
    writer.start()
    try:
        tables(shop, "import", "notes", "-", "--format", "csv", stdin=text)
    finally:
        stop.set()
        writer.join()
    (counted,) = rows(shop, "select count(*) as all_rows, sum(text = 'meanwhile') as meanwhile from notes")
    assert counted == {"all_rows": 100_001 + written, "meanwhile": written}
    assert written > 0
    command = f"'{sys.executable}' -m svc_tui tables export notes | head -2; echo ${{PIPESTATUS[0]}}"
    process = subprocess.run(["bash", "-c", command], cwd=shop, capture_output=True, text=True, check=True)
    assert process.stdout == "id,text\n1,before\n0\n" and process.stderr == ""
    assert rows(shop, "select count(*) as n from notes") == [{"n": 100_001 + written}]


def test_blame_names_requests_and_users_and_tables_are_read_as_they_were(
    server: DevServer, shop: Path, svc: Svc
) -> None:
    svc(shop, "tables", "query", "delete from notes", "--write")
    answer = httpx.post(server.url, content=b"first", timeout=60)
    [note] = rows(shop, "select id from notes")
    svc(shop, "tables", "query", "update notes set text = 'second'", "--write")
    blame = svc(shop, "tables", "blame", "notes", str(note["id"]), "text", "--json")
    update, insert, *_ = json.loads(blame)["rows"]  # Other rows may have had the same id.
    assert (update["before"], update["after"]) == ({"text": "first"}, {"text": "second"})
    assert (update["write"]["by"], update["write"]["user"]) == ("sql", "developer")
    assert (insert["before"], insert["after"]) == (None, {"text": "first"})
    assert (insert["write"]["by"], insert["write"]["deployment"]) == ("request", "dev")
    assert insert["write"]["requests"] == [answer.headers["x-request-id"]]
    then = datetime.fromtimestamp(insert["write"]["time_ns"] / 1e9 + 1e-4, UTC).isoformat()
    assert svc(shop, "tables", "at", then, "query", "select text from notes", "--csv") == b"text\nfirst\n"
    text = svc(shop, "tables", "blame", "notes", str(note["id"])).decode()
    assert f"request {insert['write']['requests'][0]} of dev" in text
    assert 'text "first" → "second"' in text


def test_guests_and_commands_share_one_set_of_rows(server: DevServer, shop: Path, svc: Svc) -> None:
    svc(shop, "tables", "query", "delete from notes", "--write")
    post(server, "from a guest")
    assert rows(shop, "select text from notes") == [{"text": "from a guest"}]
    tables(shop, "query", "insert into notes (text) values ($1)", "typed", "--write")
    assert notes(server) == ["from a guest", "typed"]
    svc(shop, "tables", "import", "notes", "-", "--format", "csv", stdin="id,text\n7,imported ü\n".encode())
    assert notes(server) == ["from a guest", "typed", "imported ü"]

    first = svc(shop, "tables", "export", "notes", "--format", "jsonl")
    svc(shop, "tables", "import", "notes", "-", "--format", "jsonl", "--replace", stdin=first)
    assert svc(shop, "tables", "export", "notes", "--format", "jsonl") == first
    database = svc(shop, "tables", "export", "--all", "--format", "db")
    svc(shop, "tables", "import", "-", "--format", "db", "--replace", stdin=database)
    assert svc(shop, "tables", "export", "--all", "--format", "db") == database
    assert notes(server) == ["from a guest", "typed", "imported ü"]

    svc(shop, "tables", "alter", "notes", "add", "pinned boolean not null default false")
    assert server.get("/").json()[0] == {"id": 1, "text": "from a guest", "pinned": False}
    post(server, "after the change")
    assert server.stop() == 0
    assert [row["id"] for row in rows(shop, "select id from notes order by id")] == [1, 2, 7, 8]


def test_tables_of_the_service_and_of_the_project_are_separate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, svc: Svc
) -> None:
    shop = create(tmp_path / "shop ü")
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "home"))
    (shop / "site").mkdir()
    (shop / "svc.toml").write_text(
        '[project]\nname = "shop"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'
    )
    for command in ("login", "deploy"):
        svc(shop, command)
    svc(shop, "tables", "--service", "query", "insert into notes (text) values ('there')", "--write")
    assert svc(shop, "tables", "--service", "list").endswith(b"\nnotes\ttable\t1\t\n")
    assert svc(shop, "tables", "list") == b""
    svc(shop, "tables", "migrate")
    assert svc(shop, "tables", "list").endswith(b"\nnotes\ttable\t0\t\n")
