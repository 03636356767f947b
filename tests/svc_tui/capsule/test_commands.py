"""`svc capsule` on a recorded request of a static site."""

import io
import json
import sqlite3
import sys
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doors.tables.sqlite.owner import open_for_writing
from engine.files.data_dir import DATA_DIR
from engine.timeline.database import timeline_path
from engine.timeline.record import LineRecord, PlatformRecord
from engine.timeline.recorder import TimelineStore
from engine.timeline.recording import MAX_BODY_BYTES, BodyCapture
from engine.trace import Capture, call_id
from svc_tui.capsule import collect
from svc_tui.main import run
from tests.svc_tui.capsule.recorded_shop import (
    ID,
    NOW,
    PASSWORD,
    ROOT,
    SECRET,
    TOKEN,
    members,
    record,
    recording,
)
from tests.svc_tui.hosted import Hosted, deploy, static_shop


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
        ("key", "session"),
        ("value", "PAYMENT"),
        ("value", "DB_PASSWORD"),
        ("value", "auth_token"),
    }
    assert "redacted  column auth_token (2)" in captured.err
    (shop / "tables.db").write_bytes(parts["tables.db"])
    rows = dict(sqlite3.connect(shop / "tables.db").execute("select name, auth_token from users").fetchall())
    statement = json.loads(parts["statements.json"])[0]
    assert rows.keys() == {"old", "bob"} and rows["old"] == statement["request"]["params"][1]
    [change] = statement["changes"]
    assert (change["key"], change["before"], change["after"]) == ({"id": 1}, {"name": "old"}, {"name": "new"})
    monkeypatch.delenv("PAYMENT")
    monkeypatch.chdir(shop.parent)
    assert run(["capsule", "open", str(shop / "bug.svccap"), "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["same"] and b64decode(replayed["replayed"]["response"]["body"]) == b"one"
    assert run(["capsule", "show", str(shop / "bug.svccap")]) == 0
    shown = capsys.readouterr().out
    for text in (
        'update users {"id": 1}',
        "update users set name = $1",
        "GET /?token=",
        "artifacts/web/index.json",
    ):
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
    assert "column auth_token (2)" in shown and "hint: Pass --yes." in shown
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert run(["capsule", ID]) == 1
    shown = capsys.readouterr().err
    assert shown.index("auth_token (2)") < shown.index(f"Write {ID}.svccap? [y/N]")
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
    assert fields["x-debug"] != f"key={SECRET}" and len(fields["x-debug"]) == len(f"key={SECRET}")
    assert fields["authorization"] == "[redacted]"
    body = json.loads(b64decode(request["body"]))
    assert body["n"].startswith("[redacted ") and body["password"] == "[redacted]"


def test_capsule_without_rows_and_artifacts(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop)
    assert run(["capsule", "make", ID, "-o", "x", "--yes", "--no-rows"]) == 0
    documents = {"capsule.json", "exchange.json", "fetches.json", "statements.json"}
    assert set(members(shop / "x")) == {"svc.toml", *documents}
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


def test_error_response_is_the_same_in_a_replay_but_for_the_id_in_it(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def replayed(status: int, body: bytes, headers: list[list[str]]) -> dict[str, Any]:
        fields = [(name.encode(), value.encode()) for name, value in headers]
        response = BodyCapture()
        response.add(body, ended=True)
        record(
            shop,
            ROOT,
            recording(shop, target="/none", status=status, response_headers=fields, response=response),
        )
        assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
        capsys.readouterr()
        run(["capsule", "open", "x", "--json"])
        return dict(json.loads(capsys.readouterr().out))

    first = replayed(404, b"{}", [])
    assert not first["same"]
    answer = first["replayed"]["response"]
    body = b64decode(answer["body"])
    recorded_body = body.replace(first["replayed"]["request_id"].encode(), ID.encode())
    assert recorded_body != body
    assert replayed(404, recorded_body, answer["headers"])["same"]
    assert not replayed(404, body, answer["headers"])["same"]


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
    assert "note      header fields, bodies, SQL parameters and rows" in capsys.readouterr().err
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


def test_numbers_of_statements_have_their_text(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = "1.10, 12345678901234567890.123, 1e400, -0"
    sent = f'{{"sql": "select $1", "params": [{numbers}]}}'.encode()
    answer = f'{{"rows": [{{"n": [{numbers}]}}]}}'.encode()
    captures = [(call_id(ROOT.span_id, 0), Capture(sent, answer, NOW))]
    record(shop, ROOT, recording(shop, captures=captures))
    assert run(["capsule", ID, "-o", "x", "--yes"]) == 0
    capsys.readouterr()
    assert run(["capsule", "show", "x"]) == 0
    assert f"[{numbers}]" in capsys.readouterr().out
    assert run(["capsule", "show", "x", "--json"]) == 0
    assert capsys.readouterr().out.count(f"[{numbers}]") == 2
    assert members(shop / "x")["statements.json"].decode().split().count("12345678901234567890.123,") == 2


def test_rows_that_cannot_be_undone_are_noted(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(shop)
    with open_for_writing(shop / DATA_DIR) as connection:
        for sql in (
            "update users set name = 'later'",
            "create table loose (v)",
            "insert into loose values (1)",
        ):
            connection.execute("begin immediate")
            connection.execute(sql)
            connection.execute("commit")
    assert run(["capsule", ID, "-o", "x", "--yes", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["tables"] == {"names": ["users"], "undone": 3, "failed": 1}
    reason = "table loose, which has no primary key"
    assert f"rows can differ from those before the request: {reason}" in captured.err


def test_too_many_records_are_refused(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record(shop)
    monkeypatch.setattr(collect, "MAX_DOCUMENT_BYTES", 100)
    assert run(["capsule", ID, "--yes"]) == 1
    assert "the records and calls of the request have more than" in capsys.readouterr().err
    assert not list(shop.glob("*.svccap"))


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
