"""`svc tables` beside a `svc dev` that serves: each sees at once what the other wrote."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.dev_server import DevServer, dev_server

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


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop ü"
    (folder / "api").mkdir(parents=True)
    (folder / "tables").mkdir()
    (folder / "svc.toml").write_text(MANIFEST)
    (folder / "api" / "index.js").write_text(HANDLER)
    (folder / "tables" / "001.sql").write_text(
        "create table notes (id integer primary key, text text) strict;\n"
    )
    return folder


@pytest.fixture(params=["1", "2"], ids=["one-process", "two-workers"])
def server(shop: Path, home: Path, request: pytest.FixtureRequest) -> Iterator[DevServer]:
    with dev_server(shop, home, "--workers", request.param) as server:
        yield server


def tables(folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "svc_tui", "tables", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, input=given)
    assert done.returncode == 0, done.stderr.decode()
    return done


def rows(folder: Path, sql: str) -> list[Any]:
    return [json.loads(line) for line in tables(folder, "query", sql, "--json").stdout.splitlines()]


def post(server: DevServer, text: str) -> None:
    answer = httpx.post(server.url, content=text.encode(), timeout=20)
    assert answer.status_code == 201, answer.text


def notes(server: DevServer) -> list[str]:
    answer = server.get("/")
    assert answer.status_code == 200, answer.text
    return [row["text"] for row in answer.json()]


def test_what_guests_write_and_what_is_typed_is_one_set_of_rows(server: DevServer, shop: Path) -> None:
    post(server, "from a guest")
    assert rows(shop, "select text from notes") == [{"text": "from a guest"}]
    tables(shop, "query", "insert into notes (text) values ($1)", "typed", "--write")
    assert notes(server) == ["from a guest", "typed"]
    tables(shop, "import", "notes", "-", "--format", "csv", given="id,text\n7,imported ü\n".encode())
    assert notes(server) == ["from a guest", "typed", "imported ü"]

    first = tables(shop, "export", "notes", "--format", "jsonl").stdout
    tables(shop, "import", "notes", "-", "--format", "jsonl", "--replace", given=first)
    assert tables(shop, "export", "notes", "--format", "jsonl").stdout == first
    whole = tables(shop, "export", "--all", "--format", "db").stdout
    tables(shop, "import", "-", "--format", "db", "--replace", given=whole)
    assert tables(shop, "export", "--all", "--format", "db").stdout == whole
    assert notes(server) == ["from a guest", "typed", "imported ü"]

    tables(shop, "alter", "notes", "add", "pinned boolean not null default false")
    assert server.get("/").json()[0] == {"id": 1, "text": "from a guest", "pinned": False}
    post(server, "after the change")
    assert server.stop() == 0
    assert [row["id"] for row in rows(shop, "select id from notes order by id")] == [1, 2, 7, 8]


def test_guests_write_while_a_file_is_imported(server: DevServer, shop: Path) -> None:
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
        tables(shop, "import", "notes", "-", "--format", "csv", given=text)
    finally:
        stop.set()
        writer.join()
    (counted,) = rows(shop, "select count(*) as all_rows, sum(text = 'meanwhile') as meanwhile from notes")
    assert counted == {"all_rows": 100_001 + written, "meanwhile": written}
    assert written > 0


def test_the_head_of_an_export_is_enough(server: DevServer, shop: Path) -> None:
    text = b"text\n" + b"".join(b"row %d\n" % number for number in range(200_000))
    tables(shop, "import", "notes", "-", "--format", "csv", given=text)
    command = f"'{sys.executable}' -m svc_tui tables export notes | head -2; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=shop, capture_output=True, text=True, check=True)
    assert done.stdout == "id,text\n1,row 0\n0\n" and done.stderr == ""
    assert notes_count(shop) == 200_000


def notes_count(folder: Path) -> int:
    return int(rows(folder, "select count(*) as n from notes")[0]["n"])


def test_the_tables_on_the_service_are_apart_from_those_here(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "home"))
    (shop / "site").mkdir()
    (shop / "svc.toml").write_text(
        '[project]\nname = "shop"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'
    )
    for command in ("login", "deploy"):
        subprocess.run([sys.executable, "-m", "svc_tui", command], cwd=shop, capture_output=True, check=True)
    tables(shop, "--service", "query", "insert into notes (text) values ('there')", "--write")
    assert tables(shop, "--service", "list").stdout == b"notes\ttable\t1\t\n"
    assert tables(shop, "list").stdout == b""
    tables(shop, "migrate")
    assert tables(shop, "list").stdout == b"notes\ttable\t0\t\n"
