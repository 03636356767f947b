"""Files that the host sent as responses, in a capsule and its replay."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.timeline.recording import MAX_BODY_BYTES, BodyCapture
from engine.trace import Capture, call_id
from svc_tui.main import run
from tests.svc_tui.capsule.recorded_shop import ID, NOW, ROOT, SPAN, members, record, recording, write

MANIFEST = """\
[project]
name = "shop"

[resource.web]
lane = "static"
public = true
files = "public/"
"""


def record_file(shop: Path, content: bytes, url: str, *, status: int = 200) -> None:
    """Record a request that svc answered with a stored file, or with the error of the Door."""
    (shop / "svc.toml").write_text(MANIFEST)
    fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]
    if status == 200:
        fields.append((b"content-length", str(len(content)).encode()))
    capture = Capture(time_ns=NOW, received=b"" if status == 200 else content)
    capture.request, capture.response = ("GET", url, []), (status, fields)
    nothing, sent = BodyCapture(), BodyCapture()
    nothing.add(b"", ended=True)
    sent.add(content, ended=True)
    record(
        shop,
        ROOT,
        recording(
            shop,
            target="/a%20b.txt",
            headers=[(b"host", b"localhost:3000")],
            body=nothing,
            status=status,
            response=sent,
            response_headers=fields,
            captures=[(call_id(SPAN, 0), capture)],
        ),
    )


def made(shop: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Make a capsule, and return what the command reported."""
    assert run(["capsule", ID, "-o", "bug.svccap", "--with-artifacts", "--yes"]) == 0
    return capsys.readouterr().err


def replayed(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    code = run(["capsule", "open", str(path), "--json"])
    captured = capsys.readouterr()
    assert captured.out, (code, captured.err)
    return json.loads(captured.out), captured.err


URL = "http://files.svc.internal/v1/files/public/a%20b.txt"


def test_file_is_sent_as_it_was(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_file(shop, b"stored", URL)
    assert "a b.txt" not in made(shop, capsys)
    document, _ = replayed(shop / "bug.svccap", capsys)
    assert document["same"] and document["replayed"]["response"] == document["recorded"]["response"] | {
        "headers": document["replayed"]["response"]["headers"]
    }
    (fetch,) = json.loads(members(shop / "bug.svccap")["fetches.json"])
    assert (fetch["request"]["url"], fetch["complete"]) == (URL, True)


def test_long_file_is_named_and_its_replay_has_the_same_beginning(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_file(shop, bytes(2 * MAX_BODY_BYTES), URL)
    assert "the file public/a b.txt is not in the capsule, only its first 64 KiB" in made(shop, capsys)
    document, _ = replayed(shop / "bug.svccap", capsys)
    assert document["same"] and document["replayed"]["response"]["size"] == MAX_BODY_BYTES


def test_other_file_than_the_recorded_one_is_named(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_file(shop, b"stored", URL)
    made(shop, capsys)
    parts = members(shop / "bug.svccap")
    parts["fetches.json"] = parts["fetches.json"].replace(b"/a%20b", b"/other")
    document, warned = replayed(write(shop / "other.svccap", parts), capsys)
    assert not document["same"] and document["replayed"]["response"]["status"] == 404
    assert "the file public/a b.txt is not in the capsule" in warned
