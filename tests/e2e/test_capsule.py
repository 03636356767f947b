"""A bug report: one request of `sample-apps/guestbook` in the logs, in a capsule, and replayed elsewhere."""

import hashlib
import http.server
import json
import os
import re
import subprocess
import threading
import zipfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.dev_server import DevServer, dev_server
from tests.support.samples import copied_sample
from tests.support.service import run, share_machine_code
from tests.support.waiting import until
from tests.svc_tui.capsule.recorded_shop import members, write

pytestmark = pytest.mark.slow


CALLER = """
import { json, tables } from '@svc/guest';
export default {
  async fetch(request) {
    const { rows } = await tables.exec`insert into visits default values returning *`;
    let upstream;
    try {
      const url = new URL(request.url).searchParams.get('url') + '/stock?api_key=abcdefgh';
      const response = await fetch(url, {
        method: 'POST', body: 'ping', headers: { authorization: 'Bearer ijkl' },
      });
      upstream = `${response.status} ${response.headers.get('x-kind')} ${await response.text()}`;
    } catch (error) {
      upstream = String(error);
    }
    return json({ visit: rows[0], now: new Date().toISOString(), upstream });
  },
};
"""


@pytest.fixture
def upstream() -> Iterator[http.server.HTTPServer]:
    """A server that answers with the number of its requests."""

    class Handler(http.server.BaseHTTPRequestHandler):
        count = 0

        def do_POST(self) -> None:
            Handler.count += 1
            # A chunked body, in one chunk.
            size = int(self.rfile.readline(), 16) if "content-length" not in self.headers else 4
            text = f"{Handler.count} {self.rfile.read(size).decode()}".encode()
            self.send_response(201)
            self.send_header("x-kind", "stock")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def opened_as_recorded(folder: Path, environ: dict[str, str], bug: Path) -> dict[str, Any]:
    """Replay a capsule; return the JSON of its response, but `now`, which varies, as it is recorded."""
    opened = svc(folder, environ, "capsule", "open", str(bug), "--json")
    document = json.loads(opened.stdout)
    recorded, replayed = (
        json.loads(b64decode(document[name]["response"]["body"])) for name in ("recorded", "replayed")
    )
    replayed["now"] = recorded["now"]
    result: dict[str, Any] = replayed
    return result


def rewrite(path: Path, time: str) -> None:
    """Change the time of the request in a capsule, and remove the responses of other servers."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    head, exchange, statements = (
        json.loads(parts[name]) for name in ("capsule.json", "exchange.json", "statements.json")
    )
    exchange["time"] = time
    for call in statements:
        call |= {"time": time, "response": None, "changes": []}
    parts["fetches.json"] = b"[]"
    parts |= {
        "exchange.json": json.dumps(exchange).encode(),
        "statements.json": json.dumps(statements).encode(),
    }
    for name in ("exchange.json", "statements.json", "fetches.json"):
        head["members"][name] = [hashlib.sha256(parts[name]).hexdigest(), len(parts[name])]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (parts | {"capsule.json": json.dumps(head).encode()}).items():
            archive.writestr(name, data)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guestbook with its page and its JavaScript, which need no further toolchain."""
    folder = copied_sample("guestbook", tmp_path_factory.mktemp("capsule"))
    manifest = folder / "svc.toml"
    text = manifest.read_text(encoding="utf-8").partition("[resource.go]")[0]
    manifest.write_text(re.sub(r"mounts = .*", 'mounts = { "/js/*" = "js" }', text), encoding="utf-8")
    return folder


def svc(folder: Path, environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(folder, {"PATH": os.environ["PATH"], "NO_COLOR": "1", **environ}, *arguments)


def made(folder: Path, environ: dict[str, str], request: str, file: Path) -> str:
    """Make a capsule once the request is recorded; return the notes."""
    results: list[subprocess.CompletedProcess[str]] = []

    def succeeded() -> bool:
        results.append(svc(folder, environ, "capsule", request, "-o", str(file), "--with-artifacts", "--yes"))
        return results[-1].returncode == 0

    until(succeeded)
    return results[-1].stderr


def elsewhere(folder: Path, home: Path) -> tuple[Path, dict[str, str]]:
    """Return a new folder, and an environment that has machine code only."""
    share_machine_code(folder, home / "cache")
    return folder, {"SVC_HOME": str(folder)}


def post(server: DevServer, path: str, document: dict[str, str] | None = None) -> httpx.Response:
    return httpx.post(f"{server.url}/js{path}", json=document, timeout=60)


def test_post_of_guestbook_is_replayed_from_a_capsule_with_the_same_answer(
    book: Path, home: Path, tmp_path: Path
) -> None:
    environ = {"SVC_HOME": str(home)}
    with dev_server(book, home) as server:
        post(server, "/entries", {"author": "ada", "message": "first"})
        answer = post(server, "/entries/1/heart")
        request_id = answer.headers["x-request-id"]
        entry = post(server, "/entries", {"author": "bob", "message": "second"})
        post(server, "/entries/1/heart")
        last = post(server, "/entries", {"author": "cy", "message": "third"})
        server.wait_for(last.headers["x-request-id"])
        query = "select request_id from spans where kind = 'sql' and name like 'update entries%' limit 1"

        def logged() -> list[str]:
            return svc(book, environ, "logs", "--sql", query, "--csv").stdout.split()[1:]

        while not logged():
            assert server.process.poll() is None
        assert logged() == [request_id]
        tree = svc(book, environ, "logs", "--request", request_id, "--tree").stdout
        assert re.search(r"front .*\n└ js .*\n  └ batch of 2 .*\n    └ update entries set hearts", tree), tree
        bug = tmp_path / "bug.svccap"
        result = svc(book, environ, "capsule", request_id, "-o", str(bug), "--with-artifacts", "--yes")
        assert result.returncode == 0, result.stderr
        assert "tables    entries before the request" in result.stderr
        added = tmp_path / "added.svccap"
        result = svc(book, environ, "capsule", entry.headers["x-request-id"], "-o", str(added), "--yes")
        assert result.returncode == 0, result.stderr
    empty, other = elsewhere(tmp_path / "empty", home)
    shown = svc(empty, other, "capsule", "show", str(bug))
    assert 'update entries {"id": 1}  {"hearts": 0} → {"hearts": 1}' in shown.stdout
    opened = svc(empty, other, "capsule", "open", str(bug), "--json")
    assert opened.returncode == 0, opened.stderr
    document: dict[str, Any] = json.loads(opened.stdout)
    assert document["same"] is True
    response = document["replayed"]["response"]
    assert (response["status"], b64decode(response["body"])) == (answer.status_code, answer.content)
    assert json.loads(answer.content)["hearts"] == 1
    compared = svc(empty, other, "capsule", "open", str(bug))
    assert (compared.returncode, "the responses are the same" in compared.stderr) == (0, True)
    assert "≠" not in compared.stdout
    # Without artifacts in the capsule, those of the project in the folder answer.
    replayed = svc(book, environ, "capsule", "open", str(added), "--json")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert b64decode(json.loads(replayed.stdout)["replayed"]["response"]["body"]) == entry.content
    assert entry.json()["id"] == 2 and entry.json()["written_at"]
    copied = svc(empty, other, "capsule", "open", str(added))
    assert copied.returncode == 1 and "Make it with --with-artifacts" in copied.stderr


def test_replay_is_offline_at_the_time_of_the_request(
    tmp_path: Path, home: Path, upstream: http.server.HTTPServer
) -> None:
    url = f"http://localhost:{upstream.server_address[1]}"
    project = tmp_path / "caller"
    for name, text in (
        ("src/index.js", CALLER),
        (
            "tables/1.sql",
            "create table visits (id integer primary key,"
            " at text default current_timestamp, u default (now()));",
        ),
        (
            "svc.toml",
            f'[project]\nname = "caller"\n[resource.web]\nlane = "js"\npublic = true\negress = ["{url}"]\n'
            'secrets = ["KEY"]\n',
        ),
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    environ, bug = {"SVC_HOME": str(home)}, tmp_path / "bug.svccap"
    with dev_server(project, home) as server:
        answer = httpx.get(f"{server.url}/", params={"url": url}, timeout=60)
        assert answer.json()["upstream"] == "201 stock 1 ping"
        request_id = answer.headers["x-request-id"]
        server.wait_for(request_id)
        stderr = made(project, environ, request_id, bug)
    assert opened_as_recorded(tmp_path, environ, bug) == answer.json()
    with zipfile.ZipFile(bug) as archive:
        (fetch,) = json.loads(archive.read("fetches.json"))
        recorded = archive.read("fetches.json") + archive.read("exchange.json")
    assert b"abcdefgh" not in recorded and b"ijkl" not in recorded
    assert "the artifact of web contains the value of api_key" in stderr
    assert (b64decode(fetch["request"]["body"]), fetch["complete"]) == (b"ping", True)
    rewrite(bug, "2020-02-29T12:00:00.500000000Z")
    opened = svc(tmp_path, environ, "capsule", "open", str(bug), "--json")
    assert opened.returncode == 1, opened.stderr
    assert "resource web: the secret KEY has no value in a replay" in opened.stderr
    replayed = json.loads(opened.stdout)["replayed"]
    document = json.loads(b64decode(replayed["response"]["body"]))
    assert document["visit"] == {"id": 1, "at": "2020-02-29 12:00:00", "u": "2020-02-29T12:00:00.500Z"}
    assert document["now"].startswith("2020-02-29T12:0")
    texts = " ".join(record.get("body", "") for record in replayed["records"])
    assert f"a call to {url}/stock was denied: no response of it was recorded" in texts
    assert httpx.post(url, content="ping", timeout=60).text == "2 ping"


SESSIONS = """
import { tables } from '@svc/guest';
const digest = async (text) =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
export default {
  async fetch(request) {
    const token = /sid=([0-9a-f]+)/.exec(request.headers.get('cookie') ?? '')?.[1];
    if (!token) return new Response('no session', { status: 401 });
    const key = await digest(token);
    if (new URL(request.url).pathname === '/sign-in') {
      await tables.exec`insert into sessions values (${key.toHex()}, 'ann')`;
      await tables.exec`insert into logins values (${key}, 'ann')`;
      return new Response('welcome');
    }
    const rows = await tables.query`select user from sessions where id = ${key.toHex()}`;
    rows.push(...await tables.query`select user from logins where hash = ${key}`);
    if (rows.length !== 2) return new Response('unknown session', { status: 401 });
    throw new Error(`no order of ${rows[0].user}`);
  },
};
"""


def test_failing_request_of_a_session_is_replayed_from_a_capsule_without_its_token(
    tmp_path: Path, home: Path
) -> None:
    project, environ, bug = tmp_path / "shop", {"SVC_HOME": str(home)}, tmp_path / "bug.svccap"
    (project / "tables").mkdir(parents=True)
    (project / "index.js").write_text(SESSIONS, encoding="utf-8")
    (project / "tables" / "1.sql").write_text(
        "create table sessions (id text primary key, user text);"
        "create table logins (hash blob primary key, user text);"
    )
    (project / "svc.toml").write_text(
        '[project]\nname = "shop"\n[resource.web]\nlane = "js"\npublic = true\n'
    )
    token = "5ca1ab1e" * 8
    with dev_server(project, home) as server:
        cookie = {"cookie": f"theme=dark; sid={token}"}
        assert httpx.get(f"{server.url}/sign-in", headers=cookie, timeout=60).text == "welcome"
        answer = httpx.get(f"{server.url}/order", headers=cookie, timeout=60)
        assert answer.status_code == 500
        request_id = answer.headers["x-request-id"]
        server.wait_for(request_id)
        stderr = made(project, environ, request_id, bug)
    assert "a replay sends no" not in stderr and "field cookie (2)" in stderr
    digest = hashlib.sha256(token.encode()).digest()
    with zipfile.ZipFile(bug) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert not [secret for secret in (token.encode(), digest.hex().encode(), digest) if secret in content]
    opened = svc(tmp_path, environ, "capsule", "open", str(bug), "--json")
    document = json.loads(opened.stdout)
    assert document["replayed"]["response"]["status"] == 500, opened.stdout
    assert "no order of ann" in json.dumps(document["replayed"]["records"])
    # The values are in the memory of svc dev only.
    late = svc(project, environ, "capsule", request_id, "-o", "late.svccap", "--yes")
    assert "a replay sends no cookie" in late.stderr


SENDER = """
import { files } from '@svc/guest';
export default {
  fetch(request) {
    return files.response(decodeURIComponent(new URL(request.url).pathname.slice(5)), {
      headers: { 'cache-control': 'public, max-age=9' },
    });
  },
};
"""
SENDING = """\
[project]
name = "shop"
front = "site"

[resource.site]
lane = "static"
public = true
files = "public/"
mounts = { "/api/*" = "api" }

[resource.api]
lane = "js"
workdir = "api"
"""


def test_files_that_the_host_sent_are_replayed(tmp_path: Path, home: Path) -> None:
    environ, shop = {"SVC_HOME": str(home)}, tmp_path / "shop"
    (shop / "api" / "src").mkdir(parents=True)
    (shop / "svc.toml").write_text(SENDING)
    (shop / "api" / "src" / "index.js").write_text(SENDER)
    stored = {"a ü.txt": b"stored", "big.bin": bytes(2 << 20), "public/docs/index.html": b"<p>docs"}
    asked: dict[str, tuple[httpx.Response, Path]] = {}
    with dev_server(shop, home) as server:
        for key, content in stored.items():
            (shop / "content").write_bytes(content)
            result = svc(shop, environ, "files", "put", "content", key)
            assert result.returncode == 0, result.stderr
        for name, path, fields in (
            ("whole", "/api/a%20%C3%BC.txt", {}),
            ("range", "/api/a%20%C3%BC.txt", {"range": "bytes=1-3"}),
            ("missing", "/api/none.txt", {}),
            ("large", "/api/big.bin", {}),
            ("site", "/docs/", {}),
            ("folder", "/docs", {}),
        ):
            answer = server.get(path, headers=fields)
            request_id, bug = answer.headers["x-request-id"], tmp_path / f"{name}.svccap"
            server.wait_for(request_id)
            stderr = made(shop, environ, request_id, bug)
            note = "the file big.bin is not in the capsule, only its first 64 KiB"
            assert (note in stderr) == (name == "large"), stderr
            asked[name] = answer, bug
    empty, other = elsewhere(tmp_path / "empty", home)
    for name, (answer, bug) in asked.items():
        opened = svc(empty, other, "capsule", "open", str(bug), "--json")
        document = json.loads(opened.stdout)
        response = document["replayed"]["response"]
        assert document["same"], (name, document)
        replayed, old = document["replayed"]["request_id"].encode(), answer.headers["x-request-id"].encode()
        body = b64decode(response["body"]).replace(replayed, old)
        assert (response["status"], body) == (answer.status_code, answer.content[: 64 << 10])
        fields = [(key, value) for key, value in response["headers"] if key not in ("date", "x-request-id")]
        assert all(answer.headers[key] == value for key, value in fields)
    parts = members(asked["whole"][1])
    parts["fetches.json"] = parts["fetches.json"].replace(b"a%20", b"b%20")
    opened = svc(empty, other, "capsule", "open", str(write(empty / "other", parts)), "--json")
    assert json.loads(opened.stdout)["replayed"]["response"]["status"] == 404
    assert "the file a ü.txt is not in the capsule" in opened.stderr
    assert [answer.status_code for answer, _ in asked.values()] == [200, 206, 404, 200, 200, 308]
