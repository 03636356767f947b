"""A client of a StaticResponder at the ASGI level, and the same site as a live folder and as an image."""

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest

from engine.artifact import BundleFile, FolderArtifact, StaticBundle
from engine.gateway.static.responder import StaticResponder
from engine.static_files.bundle import BLOBS, INDEX, encode_index, index_digest
from engine.static_files.content_type import content_type
from tests.engine.exchanges import PLAIN, CollectingExchange


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    sent: int
    pieces: int


Ask = Callable[..., Answer | None]


def make_image(source: Path, folder: Path) -> StaticBundle:
    """Pack a folder by hand, so that the responder's tests stand on the format and not on the lane."""
    (folder / BLOBS).mkdir(parents=True)

    def blob(data: bytes) -> tuple[str, int]:
        sha256 = hashlib.sha256(data).hexdigest()
        (folder / BLOBS / sha256).write_bytes(data)
        return sha256, len(data)

    files = []
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        data = path.read_bytes()
        forms = {"identity": data, "br": brotli.compress(data), "gzip": gzip.compress(data, mtime=0)}
        encodings = {k: blob(v) for k, v in forms.items() if k == "identity" or len(v) < len(data)}
        name = path.relative_to(source).as_posix()
        files.append(BundleFile(name, content_type(name), encodings, hashed=name == "main.8f3c21ab.js"))
    index = encode_index(files)
    (folder / INDEX).write_bytes(index)
    return StaticBundle(folder, index_digest(index))


@pytest.fixture
def ask() -> Ask:
    def ask(
        responder: StaticResponder, path: str, *headers: tuple[str, str], method: str = "GET", query: str = ""
    ) -> Answer | None:
        fields = [(name.encode(), value.encode()) for name, value in headers]
        exchange = CollectingExchange(path, *fields, method=method, query=query.encode())
        result = asyncio.run(responder.respond(exchange))
        if result is None:
            assert exchange.status is None and exchange.parts == []
            return None
        assert exchange.ends == [False] * (len(exchange.parts) - 1) + [True]
        assert result[0] == exchange.status
        names = [name for name, _ in exchange.headers]
        assert all(name == name.lower() for name in names)
        merged: dict[str, str] = {}
        for name, value in exchange.headers:
            key = name.decode()
            assert key == "vary" or key not in merged
            merged[key] = f"{merged[key]}, {value.decode()}" if key in merged else value.decode()
        body = b"".join(exchange.parts)
        assert result[1] == len(body)
        if method != "HEAD" and result[0] != 304:
            assert int(merged["content-length"]) == len(body)
        return Answer(result[0], merged, body, result[1], len(exchange.parts))

    return ask


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = tmp_path / "mein Projekt ü" / "public"
    for name, text in {
        "index.html": "<h1>home</h1>" * 200,
        "app.js": "console.log('hello')\n" * 200,
        "main.8f3c21ab.js": "hashed " * 100,
        "docs/index.html": "docs",
        "docs/a b#%é&+.txt": "odd",
        "empty.txt": "",
        "no-index/file.txt": "x",
        "日本語/ファイル.html": "nihongo",
        ".well-known/security.txt": "contact",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tiny.png").write_bytes(b"\x89PNG")
    return root


@pytest.fixture(params=["folder", "image"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, site: Path, tmp_path: Path) -> Callable[[bool], StaticResponder]:
    def make(spa: bool) -> StaticResponder:
        if kind == "folder":
            return StaticResponder(FolderArtifact(site), replace(PLAIN, spa=spa))
        return StaticResponder(make_image(site, tmp_path / "image"), replace(PLAIN, spa=spa))

    return make


@pytest.fixture
def responder(make: Callable[[bool], StaticResponder]) -> StaticResponder:
    return make(False)


@pytest.fixture
def image(site: Path, tmp_path: Path) -> StaticBundle:
    return make_image(site, tmp_path / "own image")
