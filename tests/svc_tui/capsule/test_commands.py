"""`svc capsule` on a recorded request of a static site, whose SQL is recorded as a Door records it."""

import hashlib
import io
import json
import sqlite3
import sys
import time
import zipfile
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.owner import database_path
from engine.files.data_dir import DATA_DIR
from engine.timeline.database import timeline_path
from engine.timeline.record import LineRecord, PlatformRecord, Record, StructuredRecord
from engine.timeline.recording import MAX_BODY_BYTES, Recording
from engine.timeline.store import TimelineStore
from engine.trace import Call, Capture, call_id
from svc_tui.main import run
from tests.engine.timeline.records import REQUEST
from tests.svc_tui.hosted import MANIFEST, Hosted, deploy, static_shop

ID = "01m85g4rc721b6bvpv6b91bqqn"
NOW = time.time_ns()
SECRET, PASSWORD, TOKEN = "sk-live-f00ba4", "correct horse", "tok-5ca1ab1e"
SPAN = "53" * 8
ROOT = replace(
    REQUEST,
    time_ns=NOW,
    request_id=ID,
    trace_id="ab" * 16,
    span_id=SPAN,
    parent="",
    target=f"/?token={TOKEN}",
    calls=(Call("sql", "update users", 1000, wall_ns=10),),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shop(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a recorded request that changed a row."""
    monkeypatch.setenv("PAYMENT", SECRET)
    root = static_shop(tmp_path / "shop ü")
    with (root / "svc.toml").open("a") as manifest:
        manifest.write(f'secrets = ["PAYMENT"]\nenv = {{ DB_PASSWORD = "{PASSWORD}" }}\n')
    path = database_path(root / DATA_DIR)
    path.parent.mkdir(parents=True)
    connection = open_owner(path)
    connection.execute(
        "create table users"
        " (id integer primary key, name, auth_token text unique check (auth_token like 'tok%'))"
    )
    connection.execute("insert into users values (1, 'new', ?), (2, 'bob', 'tok-of-bob')", [TOKEN])
    connection.close()
    monkeypatch.chdir(root)
    return root


def recording(root: Path, **fields: Any) -> Recording:
    """Return a recording whose response is that of the site."""
    sent = {"sql": "update users set name = $1 where auth_token = $2", "params": ["new", TOKEN]}
    old, new = ([1, name, TOKEN] for name in ("old", "new"))
    capture = Capture(json.dumps(sent).encode(), b'{"changes":1}', NOW, [["UPDATE", "users", 1, 1, old, new]])
    page = (root / "site" / "index.html").read_bytes()
    etag = f'"{hashlib.sha256(page).hexdigest()[:32]}"'.encode()
    recorded = Recording(
        "shop",
        ID,
        time_ns=NOW,
        method="GET",
        scheme="http",
        authority="localhost:3000",
        target=f"/?token={TOKEN}",
        headers=[
            (b"host", b"localhost:3000"),
            (b"authorization", f"Bearer {TOKEN}".encode()),
            (b"x-debug", f"key={SECRET}".encode()),
            (b"content-type", b"application/json"),
        ],
        status=200,
        response_headers=[
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(page)).encode()),
            (b"etag", etag),
            (b"cache-control", b"no-cache"),
            (b"accept-ranges", b"bytes"),
            (b"vary", b"accept-encoding"),
        ],
        captures=[(call_id(SPAN, 0), capture)],
    )
    recorded.body.add(json.dumps({"password": PASSWORD, "n": 1}).encode(), ended=True)
    recorded.response.add(page, ended=True)
    for name, value in fields.items():
        setattr(recorded, name, value)
    return recorded


def record(root: Path, *records: Record | Recording) -> None:
    line = LineRecord(NOW, ID, "web", "stdout", f"token is {TOKEN}, key is {SECRET}")
    entry = StructuredRecord(
        time_ns=NOW,
        request_id=ID,
        trace_id="ab" * 16,
        span_id=SPAN,
        resource="web",
        severity="INFO",
        body="in",
        attributes={"session": "sess-12345"},
    )
    store = TimelineStore(timeline_path(root))
    store.append([line, entry, *(records or (ROOT, recording(root)))], NOW)
    store.close()


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, parts: dict[str, bytes]) -> Path:
    """Write a capsule with these parts and their correct digests."""
    head = json.loads(parts["capsule.json"])
    head["members"] = {
        name: [hashlib.sha256(data).hexdigest(), len(data)]
        for name, data in parts.items()
        if name != "capsule.json"
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (parts | {"capsule.json": json.dumps(head).encode()}).items():
            archive.writestr(name, data)
    return path


def test_capsule_has_no_credentials_and_replays_the_same_response(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "bug.svccap", "--with-artifacts", "--yes", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    parts = members(shop / "bug.svccap")
    for secret in (SECRET, PASSWORD, TOKEN, "tok-of-bob", "sess-12345"):
        assert [name for name, data in parts.items() if secret.encode() in data] == [], secret
    assert document["tables"] == {"names": ["users"], "undone": 1, "failed": 0}
    assert {(place, name) for place, name, _ in document["redacted"]} == {
        ("column", "auth_token"),
        ("key", "auth_token"),
        ("key", "password"),
        ("key", "session"),
        ("parameter", "token"),
        ("value", "PAYMENT"),
        ("value", "DB_PASSWORD"),
        ("value", "token"),
    }
    assert "redacted  column auth_token (2)" in captured.err
    (shop / "tables.db").write_bytes(parts["tables.db"])
    rows = dict(sqlite3.connect(shop / "tables.db").execute("select name, auth_token from users").fetchall())
    statement = json.loads(parts["statements.json"])[0]
    assert rows.keys() == {"old", "bob"} and rows["old"] == statement["request"]["params"][1]
    assert statement["changes"][0]["before"] == {"id": 1, "name": "old", "auth_token": rows["old"]}
    monkeypatch.delenv("PAYMENT")
    monkeypatch.chdir(shop.parent)
    assert run(["capsule", "open", str(shop / "bug.svccap"), "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["same"] and b64decode(replayed["replayed"]["response"]["body"]) == b"one"
    assert run(["capsule", "show", str(shop / "bug.svccap")]) == 0
    shown = capsys.readouterr().out
    for text in ("update users 1", "update users set name = $1", "GET /?token=", "artifacts/web/index.json"):
        assert text in shown
    assert run(["capsule", "show", str(shop / "bug.svccap"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exchange"]["request_id"] == ID


def test_redaction_is_shown_before_anything_is_written(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(shop)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert run(["capsule", ID]) == 2
    shown = capsys.readouterr().err
    assert "parameter token (1)" in shown and "hint: Pass --yes." in shown
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert run(["capsule", ID]) == 1
    shown = capsys.readouterr().err
    assert shown.index("password (1)") < shown.index(f"Write {ID}.svccap? [y/N]")
    assert not list(shop.glob("*.svccap"))
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert run(["capsule", ID]) == 0
    assert (shop / f"{ID}.svccap").exists()


def test_options_change_the_redaction(shop: Path) -> None:
    record(shop)
    options = ["--redact", "X-Debug", "--redact", "n", "--no-redact", "password", "--no-redact", "payment"]
    assert run(["capsule", ID, "-o", "x", "--yes", *options]) == 0
    request = json.loads(members(shop / "x")["exchange.json"])["request"]
    fields = dict(request["headers"])
    assert fields["x-debug"].startswith("[redacted") and fields["authorization"] == "[redacted]"
    body = json.loads(b64decode(request["body"]))
    assert body["n"].startswith("[redacted")
    # The value is that of `DB_PASSWORD`, too.
    assert body["password"].startswith("[redacted")


def test_capsule_without_rows_and_artifacts(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop)
    assert run(["capsule", "make", ID, "-o", "x", "--yes", "--no-rows"]) == 0
    assert set(members(shop / "x")) == {"capsule.json", "svc.toml", "exchange.json", "statements.json"}
    assert run(["capsule", "open", "x"]) == 0
    (shop / "site" / "index.html").write_text("two")
    assert run(["capsule", "open", "x"]) == 1
    captured = capsys.readouterr()
    assert "the responses differ" in captured.err and "≠" in captured.out
    assert "resource web differs from the one that answered" in captured.err


def test_binary_bodies_are_exact(shop: Path) -> None:
    body = bytes(range(256)) * 200
    request = recording(shop)
    request.body.chunks.clear()
    request.body.size = request.body.stored_size = 0
    request.body.add(body, ended=True)
    record(shop, ROOT, request)
    assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
    assert b64decode(json.loads(members(shop / "x")["exchange.json"])["request"]["body"]) == body


def test_request_with_an_incomplete_body_is_not_replayed(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = recording(shop)
    request.body.add(bytes(MAX_BODY_BYTES), ended=True)
    record(shop, ROOT, request)
    assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
    assert run(["capsule", "open", "x"]) == 1
    assert f"request {ID} cannot be replayed: only the first" in capsys.readouterr().err


def test_request_without_recording_replays_its_line(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop, replace(ROOT, bytes_in=0))
    assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
    assert "missing   header fields, bodies, SQL parameters and rows" in capsys.readouterr().err
    assert run(["capsule", "open", "x"]) == 0


def test_build_after_the_request_is_noted(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = PlatformRecord(NOW, "web", "INFO", "built in 5 ms")
    record(shop, built, ROOT, recording(shop))
    assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
    assert "built again" not in capsys.readouterr().err
    store = TimelineStore(timeline_path(shop))
    store.append([LineRecord(NOW, "", "web", "stdout", "built in"), replace(built, resource="other")], NOW)
    store.close()
    assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
    assert "built again" not in capsys.readouterr().err
    record(shop, built)
    assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
    assert (
        "resource web was built again after the request: its artifact may differ" in capsys.readouterr().err
    )


def test_unknown_request_and_resource_are_named(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["capsule", "01nothing", "--yes"]) == 1
    assert "request 01nothing is not recorded" in capsys.readouterr().err
    record(shop, replace(ROOT, resource="gone"), recording(shop))
    assert run(["capsule", ID, "--yes"]) == 1
    assert "resource gone handled the request and is not in svc.toml" in capsys.readouterr().err


def test_deployed_request_is_replayed_by_its_line(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = static_shop(tmp_path / "shop")
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, root)
        answer = hosted.get("/missing?token=abcdefgh")
        monkeypatch.setenv("SVC_URL", hosted.control)
        monkeypatch.setenv("SVC_TOKEN", hosted.token)
        monkeypatch.chdir(root)
        request_id = answer.headers["x-request-id"]
        options = ["-o", "x", "--service", "--with-artifacts", "--yes"]
        while run(["capsule", request_id, *options]) != 0:
            assert "is not recorded" in capsys.readouterr().err
    head = json.loads(members(root / "x")["capsule.json"])
    assert head["recorded"] is False and "tables" not in head
    assert b"abcdefgh" not in members(root / "x")["exchange.json"]
    monkeypatch.chdir(tmp_path)
    assert run(["capsule", "open", str(root / "x")]) == 0
    assert "404" in capsys.readouterr().out
    assert head["artifacts"]["web"]["sha256"] in {
        path.name for path in (tmp_path / "data" / "blobs").rglob("*") if path.is_file()
    }


def changed(part: str, change: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    def apply(parts: dict[str, bytes]) -> None:
        document = json.loads(parts[part])
        change(document)
        parts[part] = json.dumps(document).encode()

    return apply


BAD: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "no exchange": (lambda parts: parts.pop("exchange.json") and None, "it has no exchange.json"),
    "no manifest": (lambda parts: parts.pop("svc.toml") and None, "it has no svc.toml"),
    "exchange is not JSON": (
        lambda parts: parts.update({"exchange.json": b"{"}),
        "exchange.json is not JSON",
    ),
    "deep exchange": (
        lambda parts: parts.update({"exchange.json": b"[" * 99_999}),
        "exchange.json is not JSON",
    ),
    "list": (lambda parts: parts.update({"exchange.json": b"[]"}), "exchange.json: "),
    "newline in a field": (
        changed("exchange.json", lambda e: e["request"]["headers"].append(["x", "a\r\nb: c"])),
        "exchange.json: request.headers",
    ),
    "space in a name": (
        changed("exchange.json", lambda e: e["request"]["headers"].append(["x y", ""])),
        "exchange.json: request.headers",
    ),
    "target": (changed("exchange.json", lambda e: e["request"].update(target="http://x")), "request.target"),
    "method": (changed("exchange.json", lambda e: e["request"].update(method="GET /")), "request.method"),
    "base64": (changed("exchange.json", lambda e: e["request"].update(body="!")), "request.body"),
    "status": (changed("exchange.json", lambda e: e["response"].update(status="x")), "response.status"),
    "time": (changed("exchange.json", lambda e: e.update(time="yesterday")), "exchange.json: time"),
    "record": (
        changed("exchange.json", lambda e: e["records"].append({"kind": "x"})),
        "exchange.json: records",
    ),
    "statement": (changed("statements.json", lambda s: s.append({})), "statements.json: statements.1"),
    "artifact": (changed("capsule.json", lambda h: h["artifacts"]["web"].pop("kind")), "artifacts.web.kind"),
    "artifact name": (
        changed("capsule.json", lambda h: h["artifacts"].update({"../x": h["artifacts"]["web"]})),
        "capsule.json: artifacts",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_documents_are_refused_with_their_place(
    name: str, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes", "--with-artifacts"]) == 0
    parts = members(shop / "x")
    change, place = BAD[name]
    change(parts)
    write(shop / "bad", parts)
    capsys.readouterr()
    for command in ("open", "show"):
        if name == "no manifest" and command == "show":
            continue
        assert run(["capsule", command, "bad"]) == 1
        captured = capsys.readouterr()
        assert place in captured.err and "hint:" in captured.err and captured.out == ""


def test_invalid_parts_of_a_replay_are_refused(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes", "--with-artifacts"]) == 0
    parts = members(shop / "x")
    blob = next(name for name in parts if "/blobs/" in name)
    for name, data, code, text in (
        ("tables.db", b"SQLite format 3\0" + bytes(2000), 1, "nothing was imported"),
        ("svc.toml", b"[project", 2, "svc.toml has 1 mistake"),
        ("svc.toml", MANIFEST.replace("web", "api").encode(), 1, "resource web is not in its svc.toml"),
        ("artifacts/web/package.json", b"{}", 1, "the artifact of resource web in the capsule is invalid"),
        ("artifacts/web/index.json", b"{}", 1, "index.json differs from its digest in package.json"),
        (blob, b"other", 1, "differs from its digest in package.json"),
    ):
        capsys.readouterr()
        write(shop / "bad", parts | {name: data})
        assert run(["capsule", "open", "bad"]) == code, name
        assert text in capsys.readouterr().err


def test_terminal_codes_of_a_capsule_are_not_printed(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop)
    assert run(["capsule", ID, "-o", "x", "--yes", "--with-artifacts"]) == 0
    parts = members(shop / "x")
    body = b64encode(b"\x1b]0;title\x07").decode()
    changed("exchange.json", lambda e: e["response"].update(body=body))(parts)
    changed("capsule.json", lambda h: h["notes"].append("\x1b[31mred"))(parts)
    changed("statements.json", lambda s: s[0]["request"].update(sql="\x1b[2J"))(parts)
    write(shop / "bad", parts)
    capsys.readouterr()
    assert run(["capsule", "show", "bad"]) == 0 and run(["capsule", "open", "bad"]) == 1
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
