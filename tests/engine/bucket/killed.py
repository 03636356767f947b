"""Kills a process after each change of the disk in turn, and checks the bucket in the next process.

Called with an empty folder and a key of `WAYS`. Forks a process for each change: it starts from the same
files, works, reports what was acknowledged, and kills itself at the first line of the bucket's code after the
n-th change. Another process then opens the bucket and checks it. Prints the number of changes.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from hashlib import sha256
from itertools import count
from pathlib import Path

from engine.bucket import layout
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Digest
from tests.support.blobs import put
from tests.support.killing import die_after, forked

PUT, CHUNKS, SENT = b"put " * 1000, b"chunks" * 50_000, b"uploaded" * 40_000
HALF = len(SENT) // 2


def name(content: bytes) -> Digest:
    return Digest(sha256(content).hexdigest())


async def pieces(content: bytes) -> AsyncGenerator[bytes, None]:
    for at in range(0, len(content), 250_000):
        yield content[at : at + 250_000]


async def work(root: Path, say: Callable[[str], None]) -> None:
    """Perform every kind of write and report each acknowledgment."""
    bucket = FolderBucket(root)
    await put(bucket.blobs, PUT)
    say("put")
    await put(bucket.blobs, CHUNKS, pieces(CHUNKS))
    say("chunks")
    await bucket.blobs.upload(name(SENT), len(SENT), 0, pieces(SENT[:HALF]))
    say("half")
    await bucket.blobs.upload(name(SENT), len(SENT), HALF, pieces(SENT[HALF:]))
    say("sent")
    revision: int | None = None
    for value in (b"1", b"2", None):
        answer = await bucket.kv.cas("cell", value, revision)
        assert isinstance(answer, int)
        revision = answer
        say(f"cell {value!r}")
    await asyncio.gather(*(bucket.kv.cas(f"other {number}", b"%d" % number, None) for number in range(3)))
    say("others")
    await bucket.blobs.delete(name(PUT), 1 << 62)
    say("delete")
    await bucket.aclose()


async def check(root: Path, acks: set[str]) -> None:
    """Fail unless all acknowledged writes exist, none is partial, and the bucket still works."""
    bucket = FolderBucket(root)
    blobs = {info.digest async for info in bucket.blobs.list()}
    for digest in blobs:
        await bucket.blobs.get(digest)
    digests = {"put": name(PUT), "chunks": name(CHUNKS), "sent": name(SENT)}
    expected = {digest for word, digest in digests.items() if word in acks}
    if "delete" in acks:
        assert blobs == expected - {name(PUT)}
    elif "others" in acks:
        assert expected - {name(PUT)} <= blobs <= expected
    else:
        assert expected <= blobs <= set(digests.values())
    if "half" in acks and name(SENT) not in blobs:
        assert await bucket.blobs.received(name(SENT)) >= HALF
    received = await bucket.blobs.received(name(SENT))
    assert await bucket.blobs.upload(name(SENT), len(SENT), received, pieces(SENT[received:])) == len(SENT)
    assert await bucket.blobs.get(name(SENT)) == SENT

    cell = await bucket.kv.get("cell")
    values = [None, b"1", b"2", None]
    after = 3 if "cell None" in acks else 2 if "cell b'2'" in acks else 1 if "cell b'1'" in acks else 0
    assert (cell.value if cell else None) in values[after : after + 2]
    others = {other.key: other.value for other in await bucket.kv.list("other ")}
    assert others.items() <= {f"other {number}": b"%d" % number for number in range(3)}.items()
    assert len(others) == 3 or "others" not in acks
    assert isinstance(await bucket.kv.cas("more", b"", None), int)
    await put(bucket.blobs, PUT)
    await bucket.aclose()


async def upgrade(root: Path, say: Callable[[str], None]) -> None:
    """Open a bucket of an older layout."""
    await FolderBucket(root).aclose()
    say("upgraded")


async def check_upgraded(root: Path, acks: set[str]) -> None:
    """Fail unless the upgrade completes when repeated."""
    await upgrade(root, acks.add)
    assert (root / layout.VERSION).read_text() == f"svc bucket, layout {layout.CURRENT}\n"


async def start_without_bucket(root: Path) -> None:
    """Start without a bucket."""


async def start_with_old_bucket(root: Path) -> None:
    """Start with an empty bucket of an older layout."""
    await FolderBucket(root).aclose()
    (root / layout.VERSION).write_text("svc bucket, layout 1\n")


WAYS = {
    "work": (start_without_bucket, work, check),
    "upgrade": (start_with_old_bucket, upgrade, check_upgraded),
}


def main(folder: Path, way: str) -> None:
    begin, change, look = WAYS[way]
    first, root = folder / "first", folder / "bucket"
    first.mkdir()
    assert forked(lambda: asyncio.run(begin(first))) == 0
    for changes in count(1):
        shutil.copytree(first, root)
        reading, writing = os.pipe()

        def work(changes: int = changes, writing: int = writing) -> None:
            def say(word: str) -> None:
                os.write(writing, f"{word}\n".encode())

            die_after(changes, root, "engine/bucket", "engine/files")
            asyncio.run(change(root, say))

        ended = forked(work)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            acks = set(pipe.read().splitlines())
        assert ended in (0, -signal.SIGKILL), f"change {changes}: ended with {ended}"
        if forked(lambda acks=acks: asyncio.run(look(root, acks))) != 0:  # type: ignore[misc]
            raise SystemExit(f"killed after change {changes}, after {sorted(acks)}")
        shutil.rmtree(root)
        if ended == 0:
            print(f"changes={changes - 1}")
            return


main(Path(sys.argv[1]), sys.argv[2])
