"""A static site with a recorded request, whose SQL is recorded as a Door records it."""

import hashlib
import json
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.timeline.database import timeline_path
from engine.timeline.record import LineRecord, Record, StructuredRecord
from engine.timeline.recorder import TimelineStore
from engine.timeline.recording import Recording
from engine.trace import Call, Capture, call_id
from tests.engine.timeline.records import REQUEST

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


def recording(root: Path, **fields: Any) -> Recording:
    """Return a recording whose response is that of the site."""
    sent = {"sql": "update users set name = $1 where auth_token = $2", "params": ["new", TOKEN]}
    capture = Capture(json.dumps(sent).encode(), b'{"changes":1}', NOW)
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
