"""Live folders: responses follow the disk at once, and concurrent changes are safe."""

import asyncio
import os
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.artifact import FolderArtifact
from engine.gateway.static import source
from engine.gateway.static.responder import PIECE_BYTES, FileChanged, StaticResponder
from engine.gateway.static.source import SMALL_FILE_BYTES
from tests.engine.exchanges import PLAIN, CollectingExchange
from tests.support.examples import examples
from tests.support.open_files import open_files

BIG = 5 * SMALL_FILE_BYTES


@pytest.fixture
def live(site: Path) -> StaticResponder:
    return StaticResponder(FolderArtifact(site), PLAIN)


def _age(path: Path) -> None:
    """Age a file enough for the memory cache; only its change time still shows a write."""
    os.utime(path, ns=(1, 1))


def test_changed_file_of_equal_size_is_served_at_once(live, ask, site: Path) -> None:
    page = site / "index.html"
    for number in range(300):
        page.write_text(f"{number:04}")
        assert ask(live, "/").body == f"{number:04}".encode()


def test_replaced_file_of_equal_mtime_is_served_at_once(live, ask, site: Path) -> None:
    page, other = site / "index.html", site / "new"
    page.write_text("old!")
    _age(page)
    assert ask(live, "/").body == b"old!"
    other.write_text("new!")
    _age(other)
    other.replace(page)
    assert ask(live, "/").body == b"new!"


def test_changed_file_invalidates_cache(ask, site: Path, monkeypatch) -> None:
    monkeypatch.setattr(source, "FRESH_NS", 0)
    monkeypatch.setattr(source, "CACHE_BYTES", 10_000)
    live, page = StaticResponder(FolderArtifact(site), PLAIN), site / "index.html"
    for text in ("first", "other", "third"):
        page.write_text(text)
        _age(page)
        for _ in range(3):
            assert ask(live, "/").body == text.encode()
    names = [f"{number}.txt" for number in range(30)]
    for name in names:
        (site / name).write_text(name * 200)
    for name in names + names[::-1]:
        assert ask(live, f"/{name}").body == (name * 200).encode()


def test_removed_and_added_files_are_noticed(live, ask, site: Path) -> None:
    assert ask(live, "/app.js").status == 200
    (site / "app.js").unlink()
    assert ask(live, "/app.js") is None
    (site / "app.js").write_text("back")
    assert ask(live, "/app.js").body == b"back"


def test_moved_folder_is_noticed(live, ask, site: Path) -> None:
    away = site.with_name("away")
    site.rename(away)
    assert ask(live, "/") is None
    away.rename(site)
    assert ask(live, "/").status == 200


def test_equal_content_preserves_etag(live, ask, site: Path) -> None:
    etag = ask(live, "/app.js").headers["etag"]
    (site / "app.js").write_bytes((site / "app.js").read_bytes())
    assert ask(live, "/app.js", ("if-none-match", etag)).status == 304
    (site / "app.js").write_text("other")
    assert ask(live, "/app.js", ("if-none-match", etag)).status == 200


def test_symlink_outside_folder_returns_none(live, ask, site: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file.txt").write_text("secret")
    (secret / "index.html").write_text("secret")
    (site / "file").symlink_to(secret / "file.txt")
    (site / "folder").symlink_to(secret)
    sibling = site.with_name(site.name + "-other")
    sibling.mkdir()
    (sibling / "x.txt").write_text("secret")
    (site / "sibling").symlink_to(sibling)
    for path in ("/file", "/folder", "/folder/", "/folder/file.txt", "/sibling/x.txt"):
        assert ask(live, path) is None


def test_symlink_to_hidden_or_missing_file_or_itself_returns_none(live, ask, site: Path) -> None:
    (site / ".env").write_text("SECRET=1")
    (site / "env").symlink_to(".env")
    (site / "nothing").symlink_to("nowhere")
    (site / "loop").symlink_to("loop")
    for path in ("/env", "/nothing", "/loop", "/loop/x"):
        assert ask(live, path) is None


def test_symlink_inside_or_to_folder_is_followed(ask, site: Path, tmp_path: Path) -> None:
    (site / "same.js").symlink_to("app.js")
    (tmp_path / "link").symlink_to(site)
    linked = StaticResponder(FolderArtifact(tmp_path / "link"), PLAIN)
    assert ask(linked, "/same.js").body == (site / "app.js").read_bytes()


def test_named_pipe_is_not_opened(live, ask, site: Path) -> None:
    os.mkfifo(site / "pipe")
    assert ask(live, "/pipe") is None


def test_overlong_name_returns_none(live, ask) -> None:
    assert ask(live, "/" + "x" * 300) is None
    assert ask(live, "/x" * 5000) is None


def test_manifest_is_not_served(live, ask, site: Path) -> None:
    (site / "svc.toml").write_text("[project]")
    assert ask(live, "/svc.toml") is None


def test_large_file_is_sent_in_chunks(live, ask, site: Path) -> None:
    content = os.urandom(BIG + 1)
    (site / "big.bin").write_bytes(content)
    answer = ask(live, "/big.bin")
    assert answer.body == content
    assert answer.pieces == BIG // PIECE_BYTES + 1
    part = ask(live, "/big.bin", ("range", f"bytes={PIECE_BYTES - 1}-{3 * PIECE_BYTES}"))
    assert (part.status, part.body) == (206, content[PIECE_BYTES - 1 : 3 * PIECE_BYTES + 1])
    assert ask(live, "/big.bin", ("if-none-match", answer.headers["etag"])).status == 304
    (site / "big.bin").write_bytes(content[::-1])
    assert ask(live, "/big.bin", ("if-none-match", answer.headers["etag"])).status == 200


def test_sparse_file_is_streamed_without_memory_growth(live, site: Path) -> None:
    size = 256 * 1024 * 1024
    with (site / "huge.bin").open("wb") as file:
        file.truncate(size)
    received = 0

    def count(part: bytes) -> None:
        nonlocal received
        assert len(part) <= PIECE_BYTES
        received += len(part)

    exchange = CollectingExchange("/huge.bin", on_part=count)
    exchange.parts = deque(maxlen=1)  # type: ignore[assignment]
    assert asyncio.run(live.respond(exchange)) == (200, size)
    assert received == size


def _serve_while(live: StaticResponder, action: Any) -> int:
    """Ask for /big.bin and run `action` once the first piece has left; return the bytes that left."""
    received = 0

    def count(part: bytes) -> None:
        nonlocal received
        if part and not received:
            action()
        received += len(part)

    asyncio.run(live.respond(CollectingExchange("/big.bin", on_part=count)))
    return received


def test_file_changed_during_response_raises(live, site: Path) -> None:
    big = site / "big.bin"
    size = 16 * BIG
    for action in (lambda: os.truncate(big, 10), lambda: big.write_bytes(b"y" * size)):
        big.write_bytes(b"x" * size)
        with pytest.raises(FileChanged, match="changed while it was being sent"):
            _serve_while(live, action)


def test_file_removed_or_replaced_during_response_is_served_whole(live, site: Path) -> None:
    big, other = site / "big.bin", site / "other.bin"
    big.write_bytes(b"x" * 16 * BIG)
    other.write_bytes(b"y")
    assert _serve_while(live, lambda: other.replace(big)) == 16 * BIG
    big.write_bytes(b"x" * 16 * BIG)
    assert _serve_while(live, big.unlink) == 16 * BIG


def test_client_disconnect_ends_reading(live, site: Path) -> None:
    (site / "big.bin").write_bytes(b"x" * 64 * BIG)

    async def scenario() -> tuple[int, int] | None:
        exchange = CollectingExchange("/big.bin", on_part=lambda part: exchange.leave())
        return await live.respond(exchange)

    result = asyncio.run(scenario())
    assert result is not None
    assert result[1] < 64 * BIG


def test_large_response_does_not_block_other_requests(live, site: Path) -> None:
    (site / "big.bin").write_bytes(b"x" * 16 * BIG)

    async def scenario() -> list[str]:
        order: list[str] = []

        async def download() -> None:
            await live.respond(CollectingExchange("/big.bin", before_send=lambda: asyncio.sleep(0)))
            order.append("big")

        async def page() -> None:
            await live.respond(CollectingExchange("/", before_send=lambda: asyncio.sleep(0)))
            order.append("page")

        async with asyncio.TaskGroup() as group:
            group.create_task(download())
            group.create_task(page())
        return order

    assert asyncio.run(scenario()) == ["page", "big"]


def test_files_are_closed(live, ask, site: Path) -> None:
    (site / "big.bin").write_bytes(b"x" * BIG)
    before = open_files()
    for _ in range(5):
        assert ask(live, "/big.bin").status == 200
        assert ask(live, "/app.js").status == 200
    assert open_files() <= before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(300))
@given(path=st.text(alphabet="/.\\%2eEfFcC05 ~adocsindex.htmlé", max_size=40))
def test_arbitrary_path_returns_only_files_of_folder(live, ask, site: Path, path: str) -> None:
    own = {p.read_bytes() for p in site.rglob("*") if p.is_file()}
    answer = ask(live, "/" + path)
    assert answer is None or answer.status == 308 or answer.body in own
