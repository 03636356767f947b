"""The contract of Blobs, for every backend."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterable
from hashlib import sha256
from pathlib import Path

import pytest

from engine.bucket.protocols import (
    BadName,
    BlobMissing,
    Bucket,
    Digest,
    DigestMismatch,
    StaleRevision,
    UploadBusy,
    as_digest,
)
from tests.support.blobs import exists, put
from tests.support.buckets import Use

NEVER = Digest("0" * 64)
FUTURE = 1 << 62
LARGE = os.urandom(3_000_001)
LARGE_NAME = Digest(sha256(LARGE).hexdigest())


async def pieces(*chunks: bytes, failure: BaseException | None = None) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk
    if failure is not None:
        raise failure


def cut(content: bytes, size: int) -> AsyncIterable[bytes]:
    return pieces(*(content[at : at + size] for at in range(0, len(content), size)))


async def used_ns(bucket: Bucket) -> int:
    (info,) = [info async for info in bucket.blobs.list()]
    return info.used_ns


async def names(bucket: Bucket) -> set[str]:
    return {info.digest async for info in bucket.blobs.list()}


@pytest.mark.parametrize("content", [b"", b"one\0two", LARGE], ids=len)
def test_uploaded_blob_is_readable_by_digest_and_survives_reopening(
    use: Use, content: bytes, tmp_path: Path
) -> None:
    name = sha256(content).hexdigest()

    async def store(bucket: Bucket) -> None:
        assert not await exists(bucket.blobs, name)
        assert await put(bucket.blobs, content, cut(content, 1000)) == name
        assert await put(bucket.blobs, content) == name
        assert await bucket.blobs.get(as_digest("sha256:" + name)) == content

    async def look(bucket: Bucket) -> None:
        assert b"".join([chunk async for chunk in bucket.blobs.read(as_digest(name))]) == content
        (info,) = [info async for info in bucket.blobs.list()]
        assert (info.digest, info.size) == (name, len(content))
        assert abs(info.used_ns - time.time_ns()) < 600e9
        await bucket.blobs.copy_to(as_digest(name), tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == content
        with pytest.raises(FileExistsError):
            await bucket.blobs.copy_to(as_digest(name), tmp_path / "copy")

    use(store)
    use(look)


def test_missing_blob_raises_blob_missing(use: Use, tmp_path: Path) -> None:
    async def scenario(bucket: Bucket) -> None:
        assert not await bucket.blobs.touch(NEVER)
        assert not await bucket.blobs.delete(NEVER, FUTURE)
        for asked in (bucket.blobs.get(NEVER), bucket.blobs.copy_to(NEVER, tmp_path / "copy")):
            with pytest.raises(BlobMissing):
                await asked
        assert await names(bucket) == set()

    use(scenario)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    "name", ["", "../version", "A" * 64, "0" * 63, "0" * 65, "sha256:" + "g" * 64, "0" * 64 + "\n"]
)
def test_invalid_digest_raises_bad_name(use: Use, name: str) -> None:
    async def scenario(bucket: Bucket) -> None:
        for asked in (
            bucket.blobs.get(Digest(name)),
            bucket.blobs.delete(Digest(name), FUTURE),
            bucket.blobs.received(Digest(name)),
            bucket.blobs.upload(Digest(name), 1, 0, pieces(b"x")),
        ):
            with pytest.raises(BadName):
                await asked

    use(scenario)


def test_concurrent_uploads_of_different_content_succeed(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        contents = [b"content %d" % number for number in range(40)]
        digests = await asyncio.gather(*(put(bucket.blobs, content) for content in contents))
        assert await names(bucket) == set(digests)
        assert await asyncio.gather(*(bucket.blobs.get(digest) for digest in digests)) == contents

    use(scenario)


def test_delete_removes_only_blobs_unused_since_time(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        name = await put(bucket.blobs, b"content")
        assert not await bucket.blobs.delete(name, 0)
        first = await used_ns(bucket)
        while await used_ns(bucket) == first:  # the clock of a file system ticks in milliseconds
            assert await bucket.blobs.touch(name)
        assert not await bucket.blobs.delete(name, first + 1)
        assert await bucket.blobs.delete(name, FUTURE)
        assert not await exists(bucket.blobs, name)
        assert await put(bucket.blobs, b"content") == name

    use(scenario)


def test_interrupted_upload_resumes_at_received_offset(use: Use) -> None:
    async def begin(bucket: Bucket) -> None:
        assert await bucket.blobs.received(LARGE_NAME) == 0
        with pytest.raises(ConnectionError):
            chunks = pieces(LARGE[:1_000_000], LARGE[1_000_000:1_000_007], failure=ConnectionError())
            await bucket.blobs.upload(LARGE_NAME, len(LARGE), 0, chunks)
        assert not await exists(bucket.blobs, LARGE_NAME)

    async def go_on(bucket: Bucket) -> None:
        assert await bucket.blobs.received(LARGE_NAME) == 1_000_007
        for wrong in (0, 7, 1_000_008):
            answer = await bucket.blobs.upload(LARGE_NAME, len(LARGE), wrong, pieces(b"x"))
            assert answer == StaleRevision(1_000_007)
        rest = LARGE[1_000_007:2_000_000]
        assert await bucket.blobs.upload(LARGE_NAME, len(LARGE), 1_000_007, pieces(rest)) == 2_000_000
        with pytest.raises(BlobMissing):
            await bucket.blobs.get(LARGE_NAME)
        rest = LARGE[2_000_000:]
        assert await bucket.blobs.upload(LARGE_NAME, len(LARGE), 2_000_000, cut(rest, 4096)) == len(LARGE)
        assert await bucket.blobs.get(LARGE_NAME) == LARGE
        assert await bucket.blobs.received(LARGE_NAME) == 0
        answer = await bucket.blobs.upload(LARGE_NAME, len(LARGE), 0, pieces(b"is not read"))
        assert answer == len(LARGE)

    use(begin)
    use(go_on)


def test_empty_upload_creates_blob(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        name = as_digest(sha256().hexdigest())
        assert await bucket.blobs.upload(name, 0, 0, pieces()) == 0
        assert await bucket.blobs.get(name) == b""

    use(scenario)


@pytest.mark.parametrize("chunks", [[b"wrong"], [b"right and more"], [b"right", b"!"]], ids=len)
def test_upload_with_wrong_digest_restarts(use: Use, chunks: list[bytes]) -> None:
    name = Digest(sha256(b"right").hexdigest())

    async def scenario(bucket: Bucket) -> None:
        with pytest.raises(DigestMismatch):
            await bucket.blobs.upload(name, 5, 0, pieces(*chunks))
        assert await bucket.blobs.received(name) == 0
        assert not await exists(bucket.blobs, name)
        assert await bucket.blobs.upload(name, 5, 0, pieces(b"ri", b"ght")) == 5
        assert await bucket.blobs.get(name) == b"right"

    use(scenario)


def test_upload_with_wrong_size_restarts(use: Use) -> None:
    name = Digest(sha256(b"right").hexdigest())

    async def scenario(bucket: Bucket) -> None:
        assert await bucket.blobs.upload(name, 500, 0, pieces(b"right and more")) == 14
        assert await bucket.blobs.upload(name, 5, 14, pieces(b"")) == StaleRevision(0)
        assert await bucket.blobs.upload(name, 5, 0, pieces(b"right")) == 5

    use(scenario)


def test_concurrent_upload_of_one_digest_raises_upload_busy(use: Use) -> None:
    name = Digest(sha256(b"right").hexdigest())

    async def scenario(bucket: Bucket) -> None:
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncGenerator[bytes, None]:
            waiting.set()
            await go_on.wait()
            yield b"right"

        uploading = asyncio.ensure_future(bucket.blobs.upload(name, 5, 0, slow()))
        await waiting.wait()
        with pytest.raises(UploadBusy):
            await bucket.blobs.upload(name, 5, 0, pieces(b"right"))
        assert await bucket.blobs.delete_uploads(FUTURE) == 0
        go_on.set()
        assert await uploading == 5

    use(scenario)


def test_owners_upload_one_digest_side_by_side(use: Use) -> None:
    name = Digest(sha256(b"right").hexdigest())

    async def scenario(bucket: Bucket) -> None:
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncGenerator[bytes, None]:
            yield b"ri"
            waiting.set()
            await go_on.wait()
            yield b"ght"

        uploading = asyncio.ensure_future(bucket.blobs.upload(name, 5, 0, slow(), "slow"))
        await waiting.wait()
        assert await bucket.blobs.received(name, "shop") == 0
        assert await bucket.blobs.upload(name, 5, 0, pieces(b"rig"), "shop") == 3
        assert await bucket.blobs.received(name, "shop") == 3
        assert await bucket.blobs.upload(name, 5, 3, pieces(b"ht"), "shop") == 5
        go_on.set()
        assert await uploading == 5
        assert await bucket.blobs.get(name) == b"right"
        assert await bucket.blobs.delete_uploads(FUTURE) == 0
        assert await bucket.blobs.get(name) == b"right"

    use(scenario)


def test_delete_uploads_removes_abandoned_uploads(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        assert await bucket.blobs.upload(NEVER, 9, 0, pieces(b"begun")) == 5
        assert await bucket.blobs.delete_uploads(0) == 0
        assert await bucket.blobs.received(NEVER) == 5
        assert await bucket.blobs.delete_uploads(FUTURE) == 1
        assert await bucket.blobs.received(NEVER) == 0

    use(scenario)


@pytest.mark.parametrize("content", [b"", b"one\0two", LARGE], ids=len)
def test_added_content_is_a_blob_whose_parts_are_readable(use: Use, content: bytes) -> None:
    async def scenario(bucket: Bucket) -> None:
        added = await bucket.blobs.add(cut(content, 70_000))
        assert (added.digest, added.size) == (sha256(content).hexdigest(), len(content))
        assert await bucket.blobs.get(added.digest) == content
        assert (await bucket.blobs.add(cut(content, 1000))) == added
        for start, stop in ((0, len(content)), (5, 6), (1 << 20, 1 << 21), ((1 << 20) - 3, 2_999_999)):
            stop = min(stop, len(content))
            chunks = bucket.blobs.read_part(added.digest, start, stop, added.checks)
            assert b"".join([chunk async for chunk in chunks]) == content[start:stop]

    use(scenario)


def test_error_of_added_content_is_raised_and_nothing_is_stored(use: Use) -> None:
    async def scenario(bucket: Bucket) -> None:
        with pytest.raises(ConnectionError):
            await bucket.blobs.add(pieces(LARGE, failure=ConnectionError()))
        assert not await names(bucket)
        assert await bucket.blobs.delete_uploads(FUTURE) == 0
        with pytest.raises(BlobMissing):
            await anext(bucket.blobs.read_part(NEVER, 0, 1, b""))

    use(scenario)


def test_rest_of_failed_content_is_removed_beside_the_event_loop(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, threads = Path.unlink, list[threading.Thread]()

    def noted(path: Path, **options: bool) -> None:
        threads.append(threading.current_thread())
        unlink(path, **options)

    async def scenario(bucket: Bucket) -> None:
        monkeypatch.setattr(Path, "unlink", noted)
        with pytest.raises(ConnectionError):
            await bucket.blobs.add(pieces(LARGE, failure=ConnectionError()))
        assert threads and threading.main_thread() not in threads

    use(scenario)
