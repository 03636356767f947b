"""Files of a js resource: the program of the documentation in `svc dev`, and a service with two workers."""

import hashlib
import json
import random
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.lanes import tables
from tests.support.dev_server import dev_server
from tests.support.service import Server, environ_of, login, prepare, run, share_code
from tests.support.waiting import until

pytestmark = pytest.mark.slow
MANIFEST = '[project]\nname = "shop"\n\n[resource.api]\nlane = "js"\nworkdir = "api"\npublic = true\n'
CONTENT = random.Random(3).randbytes(3_000_000)
PROGRAM = """
import { files, json } from '@svc/guest';

export default {
  async fetch(request, env, context) {
    const { pathname, searchParams } = new URL(request.url);
    const key = decodeURIComponent(pathname.slice(1));
    const options = Object.fromEntries(searchParams);
    try {
      if (options.late) context.waitUntil(new Promise((done) => setTimeout(done, 3000)));
      if (request.method === 'PUT') {
        const onlyIf = options.new ? { etagDoesNotMatch: '*' } : {};
        const stored = await files.put(key, request.body, { customMetadata: { by: 'änn' }, onlyIf });
        return json(stored, { status: stored ? 201 : 409 });
      }
      const { sign: method } = options;
      if (method) return json(await files.sign(key, { method, once: true, maxBytes: 4e6 }));
      if (options.list) return json(await files.list({ delimiter: '/', limit: 2, cursor: options.cursor }));
      if (options.get) {
        const file = await files.get(key, { range: request.headers });
        if (!file) return new Response('none', { status: 404 });
        const { body, range, size, customMetadata } = file;
        const described = JSON.stringify([range, size, customMetadata.by.length]);
        return new Response(body, { headers: { 'x-file': described } });
      }
      return files.response(key, { headers: { 'cache-control': 'public, max-age=9' } });
    } catch ({ name, code, status, message }) {
      return json({ name, code, status, message }, { status: 400 });
    }
  },
};
"""


def disconnect(port: int, path: str, size: int, sent: int, host: str = "localhost") -> None:
    """Send a part of an upload, and leave."""
    head = f"PUT {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {size}\r\n\r\n"
    with socket.create_connection(("localhost", port)) as connection:
        connection.sendall(head.encode() + b"x" * sent)


def test_program_of_the_documentation_stores_and_streams_files(tmp_path: Path, home: Path) -> None:
    page = (tables.PAGE.parent / "uploads.md").read_text("utf-8")
    program = re.findall(r"^```js\n// api/src/index.js\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "svc.toml").write_text(MANIFEST)
    (tmp_path / "api" / "src").mkdir(parents=True)
    (tmp_path / "api" / "src" / "index.js").write_text(program)
    with dev_server(tmp_path, home) as server:
        kinds = {"videos/c%C3%A4t.mp4": "video/mp4", "page.html": "text/html", "logo.svg": "image/svg+xml"}
        for path, kind in kinds.items():
            created = server.request("PUT", f"/{path}", content=CONTENT, headers={"content-type": kind})
            assert created.status_code == 201 and created.json()["size"] == len(CONTENT)
        video = server.get("/videos/c%C3%A4t.mp4")
        assert video.content == CONTENT and video.headers["content-type"] == "video/mp4"
        assert "content-disposition" not in video.headers
        for path in ("page.html", "logo.svg"):
            page_headers = server.get(f"/{path}").headers
            assert page_headers["content-disposition"] == "attachment"
            assert "sandbox" in page_headers["content-security-policy"]
        part = server.get("/videos/c%C3%A4t.mp4", headers={"range": "bytes=1048570-1048600"})
        assert (part.status_code, part.content) == (206, CONTENT[1048570:1048601])
        same = server.get("/videos/c%C3%A4t.mp4", headers={"if-none-match": video.headers["etag"]})
        assert same.status_code == 304
        head = server.request("HEAD", "/videos/c%C3%A4t.mp4")
        assert head.headers["content-length"] == str(len(CONTENT)) and not head.content
        disconnect(server.port, "/videos/c%C3%A4t.mp4", len(CONTENT), 2_700_000)
        server.wait_for("the client disconnected")
        assert server.get("/videos/c%C3%A4t.mp4").content == CONTENT
        assert server.request("DELETE", "/page.html").status_code == 204
        assert server.get("/page.html").status_code == 404
        assert not list((tmp_path / ".svc" / "uploads").iterdir())
        (blob,) = (tmp_path / ".svc" / "blobs").iterdir()
        blob.chmod(0o644)
        with blob.open("r+b") as file:
            file.seek(2_000_000)
            file.write(bytes([CONTENT[2_000_000] ^ 1]))
        with pytest.raises(httpx.RemoteProtocolError):
            server.get("/logo.svg")
        server.wait_for("blob-damaged")


class Shop:
    """A deployed project on a service with two workers."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.environ = environ_of(folder / "home", cache)
        self.project = folder / "shop"
        (self.project / "api" / "src").mkdir(parents=True)
        (self.project / "svc.toml").write_text(MANIFEST)
        (self.project / "api" / "src" / "index.js").write_text(PROGRAM)
        self.data = folder / "data"
        self.server = Server(self.data, self.environ, "--workers", "2")
        share_code(self.data, cache)  # A test collects garbage.

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"host": "shop.localhost", **options.pop("headers", {})}
        url = f"http://127.0.0.1:{self.server.port}{path}"
        return httpx.request(method, url, headers=headers, timeout=60, **options)

    def files(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run(self.project, self.environ, "files", "--service", *arguments)


def test_files_of_a_service(tmp_path: Path, cache: Path) -> None:
    shop = Shop(tmp_path, cache)
    try:
        login(shop.server, shop.project, shop.environ)
        prepare(shop.project, shop.environ, "deploy")
        assert shop.ask("PUT", "/a/1", content=CONTENT).status_code == 201
        assert shop.ask("PUT", "/a/1?new=1", content=b"other").status_code == 409
        assert shop.ask("PUT", "/b%2F..%2Fc", content=b"x").json()["code"] == "bad-key"
        assert shop.ask("GET", "/a/1").headers["cache-control"] == "public, max-age=9"
        assert shop.ask("GET", "/a/1?late=1").content == CONTENT
        assert "late=1" not in prepare(shop.project, shop.environ, "logs"), "its run continues"
        part = shop.ask("GET", "/a/1?get=1", headers={"range": "bytes=5-9"})
        assert part.content == CONTENT[5:10]
        assert json.loads(part.headers["x-file"]) == [{"offset": 5, "length": 5}, len(CONTENT), 3]

        url = shop.ask("GET", "/up?sign=PUT").json()["url"]
        assert shop.ask("PUT", url, content=CONTENT * 2).status_code == 413
        assert shop.ask("PUT", url, content=CONTENT).status_code == 201
        assert shop.ask("PUT", url, content=CONTENT).status_code == 412
        assert shop.ask("GET", url).status_code == 403
        for old, new in (
            ("up", "uq"),
            ("method=PUT", "method=GET"),
            ("once=1", "once=0"),
            ("max=4", "max=5"),
        ):
            assert shop.ask("PUT", url.replace(old, new, 1), content=b"x").status_code == 403

        def counted() -> bool:
            lines = prepare(shop.project, shop.environ, "logs", "--json").splitlines()
            records = [json.loads(line) for line in lines]
            return any(each.get("status") == 201 and each.get("bytes_in") == len(CONTENT) for each in records)

        until(counted)
        read = shop.ask("GET", "/up?sign=GET").json()["url"]
        assert shop.ask("GET", read, headers={"range": "bytes=-4"}).content == CONTENT[-4:]
        assert read.rpartition("=")[2] not in prepare(shop.project, shop.environ, "logs")

        listed = shop.ask("GET", "/?list=1").json()
        assert listed["delimitedPrefixes"] == ["a/"] and [each["key"] for each in listed["objects"]] == ["up"]
        source = tmp_path / "notes.txt"
        source.write_text("hello")
        assert shop.files("put", str(source), "docs/notes.txt").returncode == 0
        assert shop.files("get", "docs/notes.txt").stdout == "hello"
        blob = shop.data / "blobs" / hashlib.sha256(b"hello").hexdigest()
        blob.chmod(0o644)
        blob.write_text("hullo")
        for _ in range(2):  # It is moved away at the first.
            damaged = shop.files("get", "docs/notes.txt")
            assert damaged.returncode == 1 and "hint: Store the file again" in damaged.stderr
            assert "the bytes of the file 'docs/notes.txt' are damaged" in damaged.stderr
            answer = shop.ask("GET", "/docs/notes.txt")
            assert (answer.status_code, answer.json()["code"]) == (500, "file-damaged")
        assert shop.files("put", str(source), "docs/notes.txt").returncode == 0
        assert shop.files("get", "docs/notes.txt").stdout == "hello"
        assert json.loads(shop.files("du", "--json").stdout)["files"] == 3
        limited = run(shop.project, shop.environ, "quota", "set", "shop", "--files", "7")
        assert limited.returncode == 0
        assert shop.ask("PUT", "/more", content=CONTENT).json()["code"] == "storage-quota"
        assert shop.files("rm", "docs/notes.txt", "none").returncode == 1
        assert run(shop.project, shop.environ, "gc").returncode == 0

        disconnect(shop.server.port, "/up", len(CONTENT), 2_000_000, "shop.localhost")
        until(lambda: "499" in prepare(shop.project, shop.environ, "logs"))
        shop.server.process.send_signal(signal.SIGKILL)
        shop.server.stop()
        shop.server = shop.server.restarted(shop.environ, "--workers", "2")
        assert shop.ask("GET", "/up").content == CONTENT
        assert shop.ask("GET", read).content == CONTENT, "the signature is still valid"
        assert shop.ask("GET", "/docs/notes.txt").status_code == 404
    finally:
        shop.server.stop()


COMPILED = """
[project]
name = "shop"
front = "go"

[resource.go]
lane = "go"
workdir = "go"
public = true

[resource.rust]
lane = "rust"
workdir = "rust"
public = true
"""
CARGO = """
[package]
name = "shop"
version = "0.1.0"
edition = "2021"

[lib]
crate-type = ["cdylib"]

[dependencies]
svc-guest = { path = "svc-guest" }
"""
GUESTS = Path("lanes", "rust", "guest").resolve()


def test_libraries_of_go_and_rust(tmp_path: Path, home: Path, rust_toolchain: None) -> None:
    here = Path(__file__).parent
    (tmp_path / "svc.toml").write_text(COMPILED)
    (tmp_path / "go").mkdir()
    (tmp_path / "go" / "go.mod").write_text("module shop\n\ngo 1.24\n")
    shutil.copy(here / "files.go", tmp_path / "go" / "main.go")
    shutil.copytree(GUESTS, tmp_path / "rust" / "svc-guest", ignore=shutil.ignore_patterns("target"))
    (tmp_path / "rust" / "src").mkdir()
    (tmp_path / "rust" / "Cargo.toml").write_text(CARGO)
    shutil.copy(here / "files.rs", tmp_path / "rust" / "src" / "lib.rs")
    with dev_server(tmp_path, home) as server:
        for lane in ("go", "rust"):
            server.wait_for(f"^{lane} ready", 170)
            host = {"host": f"{lane}--shop.localhost"}

            def ask(method: str, path: str, host: dict[str, str] = host, **options: Any) -> httpx.Response:
                headers = host | options.pop("headers", {})
                return server.request(method, path, headers=headers, **options)

            created = ask("PUT", "/x%2Fa", content=CONTENT)
            assert created.status_code == 201 and created.text.startswith(str(len(CONTENT)))
            part = ask("GET", "/x%2Fa", headers={"range": "bytes=-5"})
            assert (part.status_code, part.content) == (206, CONTENT[-5:])
            assert part.headers["content-type"] == "video/mp4"
            assert ask("GET", "/x%2Fa?get").content == CONTENT[1:4]
            assert ask("GET", "/none?get").status_code == 404
            assert ask("GET", "/?list").text == "0 [x/]"
            assert ask("PUT", ask("GET", "/y?sign").text, content=b"x" * 11).status_code == 413
            for _ in range(30):  # The refusal may arrive before the body is written.
                refused = ask("PUT", "/a%2F..%2Fb", content=b"x")
                assert refused.status_code == 400 and "is not valid" in refused.text
            lines = len(server.lines)
            disconnect(server.port, "/x%2Fa", len(CONTENT), 2_700_000, host["host"])
            server.wait_for("499", after=lines)
            assert ask("GET", "/x%2Fa").content == CONTENT
            assert ask("DELETE", "/x%2Fa").status_code == 200
            assert ask("GET", "/x%2Fa?get").status_code == 404
        assert (
            server.request("PUT", "/b?new", content=b"1", headers={"host": "go--shop.localhost"}).text
            == "1ä😀"
        )
        again = server.request("PUT", "/b?new", content=b"1", headers={"host": "go--shop.localhost"})
        assert again.status_code == 409
