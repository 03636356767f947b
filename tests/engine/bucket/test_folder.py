"""The folder bucket's own behavior: its lock, its version, and files that other programs changed."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.bucket import layout
from engine.bucket.errors import BlobCorrupt, BlobMissing, BucketError, BucketInUse, DigestMismatch
from engine.bucket.folder import FolderBucket
from engine.bucket.layout import lock
from engine.bucket.protocols import Digest

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
from pathlib import Path
from engine.bucket.folder import FolderBucket
bucket = FolderBucket(Path(sys.argv[1]), "svc serve --data ü")
print("open", flush=True)
sys.stdin.read()
"""
AS_NOBODY = """
import asyncio, os, sys
from pathlib import Path
from engine.bucket.errors import BucketError
from engine.bucket.folder import FolderBucket
if os.getuid() == 0:
    os.setuid(65534)
try:
    FolderBucket(Path(sys.argv[1]))
except BucketError as error:
    print(error.message, error.hint, sep="|")
"""


def opened(root: Path, scenario: Callable[[FolderBucket], Awaitable[Any]] | None = None) -> Any:
    async def main() -> Any:
        bucket = FolderBucket(root)
        try:
            return await scenario(bucket) if scenario is not None else None
        finally:
            await bucket.aclose()

    return asyncio.run(main())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a bucket, 'ü' %41"


def python(program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )


def test_a_folder_in_use_says_by_whom_until_that_process_is_gone(root: Path) -> None:
    with python(HOLD, root) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(BucketInUse) as caught:
            FolderBucket(root)
        assert f"in use by process {holder.pid} (svc serve --data ü)" in caught.value.message
        holder.kill()
        holder.wait()
    opened(root)


def test_a_bucket_can_not_be_opened_twice_in_one_process(root: Path) -> None:
    async def scenario(_bucket: FolderBucket) -> None:
        with pytest.raises(BucketInUse):
            FolderBucket(root)

    opened(root, scenario)
    opened(root)


def test_a_failed_opening_gives_the_lock_back(root: Path) -> None:
    opened(root)
    (root / layout.VERSION).write_text("?")
    with pytest.raises(BucketError):
        FolderBucket(root)
    os.close(lock(root, "test"))


def test_no_bucket_is_put_between_somebodys_files(root: Path) -> None:
    root.mkdir()
    (root / "mine.txt").write_text("of a user")
    with pytest.raises(BucketError, match=r"is not a bucket and not empty: it has 'mine\.txt'"):
        FolderBucket(root)
    assert {path.name for path in root.iterdir()} == {"mine.txt"}


def test_a_file_is_no_bucket(root: Path) -> None:
    root.write_text("a file")
    with pytest.raises(BucketError, match="cannot use"):
        FolderBucket(root)


def test_a_bucket_of_a_newer_svc_is_left_alone(root: Path) -> None:
    opened(root)
    (root / layout.VERSION).write_text("svc bucket, layout 2\n")
    with pytest.raises(BucketError, match=r"newer svc .*\(layout 2; this svc supports 1\)"):
        FolderBucket(root)
    assert (root / layout.VERSION).read_text() == "svc bucket, layout 2\n"


@pytest.mark.parametrize("text", ["", "1\n", "svc bucket, layout 0\n", "svc bucket, layout 1", "\xff\0"])
def test_a_version_that_is_none_is_an_error_and_no_new_bucket(root: Path, text: str) -> None:
    opened(root)
    (root / layout.VERSION).write_bytes(text.encode("latin-1"))
    with pytest.raises(BucketError, match="version is corrupt"):
        FolderBucket(root)


def test_an_older_layout_is_brought_up_step_by_step_and_once(root: Path) -> None:
    taken = []
    steps = {version: lambda _root, version=version: taken.append(version) for version in (1, 2)}
    opened(root)
    layout.prepare(root, current=3, steps=steps)
    layout.prepare(root, current=3, steps=steps)
    assert taken == [1, 2]
    assert (root / layout.VERSION).read_text() == "svc bucket, layout 3\n"


def test_a_step_that_fails_is_taken_again(root: Path) -> None:
    def fails(_root: Path) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    opened(root)
    with pytest.raises(BucketError, match="No space left"):
        layout.prepare(root, current=2, steps={1: fails})
    taken: list[Path] = []
    layout.prepare(root, current=2, steps={1: taken.append})
    assert taken == [root]


@pytest.fixture
def open_to_others() -> Iterator[Path]:
    """A folder that every user may look into: those of pytest are closed to them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("made", [False, True], ids=["new", "made before"])
def test_a_folder_that_can_not_be_written_is_a_clear_error(open_to_others: Path, made: bool) -> None:
    root = open_to_others / "bucket" if made else open_to_others
    if made:
        opened(root)
    root.chmod(0o555)
    with python(AS_NOBODY, root) as child:
        assert child.stdout is not None
        told = child.stdout.read()
    if made and os.getuid() != 0:
        assert told == ""  # its owner may still write the files
        return
    message, _, hint = told.partition("|")
    assert message.endswith("Permission denied")
    assert str(root) in message
    assert "the user running svc can write" in hint
    root.chmod(0o755)


def test_a_damaged_control_database_is_an_error_and_stays_as_it_is(root: Path) -> None:
    async def fill(bucket: FolderBucket) -> None:
        for number in range(200):
            await bucket.kv.cas(f"key {number}", bytes(500), None)

    opened(root, fill)
    path = root / layout.CONTROL
    content = path.read_bytes()
    for damaged in (b"no database" * 1000, content[:8192] + os.urandom(20_000) + content[28_192:]):
        path.write_bytes(damaged)
        with pytest.raises(BucketError, match=r"control\.db is corrupt") as caught:
            FolderBucket(root)
        assert "Restore it from a backup" in caught.value.hint
        assert path.read_bytes() == damaged
    path.write_bytes(content)
    opened(root)


@pytest.mark.parametrize(
    "change", [lambda c: c[:-1], lambda c: c + b"!", lambda c: b"", lambda c: b"X" + c[1:]]
)
def test_a_changed_blob_is_never_given_out_and_comes_anew(
    root: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    content = b"a" + os.urandom(2_499_999)  # not X, which one of the changes begins with

    async def scenario(bucket: FolderBucket) -> None:
        for look in ("get", "verify", "copy_to", "read"):
            name = await bucket.blobs.put(content)
            path = root / layout.BLOBS / name
            path.chmod(0o644)
            path.write_bytes(change(content))
            seen = b""
            with pytest.raises(BlobCorrupt) as caught:
                if look == "get":
                    await bucket.blobs.get(name)
                elif look == "verify":
                    await bucket.blobs.verify(name)
                elif look == "copy_to":
                    await bucket.blobs.copy_to(name, tmp_path / "copy")
                else:
                    async for chunk in bucket.blobs.read(name):
                        seen += chunk
            assert len(seen) < max(len(content), 1)
            aside = root / layout.DAMAGED / name
            assert str(aside) in caught.value.message
            assert aside.read_bytes() == change(content)
            assert not await bucket.blobs.exists(name)
            with pytest.raises(BlobMissing):
                await bucket.blobs.get(name)
        assert not (tmp_path / "copy").exists()
        assert await bucket.blobs.get(await bucket.blobs.put(content)) == content

    opened(root, scenario)


def test_putting_a_content_again_mends_a_changed_blob(root: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        name = await bucket.blobs.put(b"content")
        path = root / layout.BLOBS / name
        path.chmod(0o644)
        path.write_bytes(b"CONTENT")
        assert await bucket.blobs.put(b"content") == name
        assert await bucket.blobs.get(name) == b"content"

    opened(root, scenario)


def test_an_upload_that_was_changed_on_disk_is_found_out(root: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        name = await bucket.blobs.put(b"content")
        assert await bucket.blobs.delete(name, 1 << 62)
        (root / layout.UPLOADS / name).write_bytes(b"CON")

        async def rest() -> Any:
            yield b"tent"

        with pytest.raises(DigestMismatch):
            await bucket.blobs.upload(name, 7, 3, rest())
        assert await bucket.blobs.received(name) == 0

    opened(root, scenario)


def test_files_that_others_left_between_the_blobs_are_none(root: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        name = await bucket.blobs.put(b"content")
        for stray in (".DS_Store", name.upper(), name + "~"):
            (root / layout.BLOBS / stray).write_bytes(b"stray")
        assert [info.digest async for info in bucket.blobs.list()] == [name]

    opened(root, scenario)


def test_blobs_can_not_be_written_by_accident_and_copies_are_links(root: Path, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        name = await bucket.blobs.put(b"content")
        await bucket.blobs.copy_to(name, tmp_path / "copy")
        assert (tmp_path / "copy").samefile(root / layout.BLOBS / name)
        assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o444

    opened(root, scenario)


def test_a_copy_on_another_file_system_is_a_file_of_its_own(root: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second file system here")
    with tempfile.TemporaryDirectory(dir=other) as folder:

        async def scenario(bucket: FolderBucket) -> None:
            await bucket.blobs.copy_to(await bucket.blobs.put(b"content"), Path(folder) / "copy")
            assert (Path(folder) / "copy").read_bytes() == b"content"
            with pytest.raises(FileExistsError):
                await bucket.blobs.copy_to(await bucket.blobs.put(b"other"), Path(folder) / "copy")
            assert (Path(folder) / "copy").read_bytes() == b"content"

        opened(root, scenario)


def test_a_copy_made_while_it_is_open_in_the_documented_order_is_a_whole_bucket(
    root: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()

    async def scenario(bucket: FolderBucket) -> Digest:
        name = await bucket.blobs.put(b"content")
        await bucket.kv.cas("a", name.encode(), None)
        source = apsw.Connection(str(root / layout.CONTROL), flags=apsw.SQLITE_OPEN_READONLY)
        target = apsw.Connection(str(copy / layout.CONTROL))
        with target.backup("main", source, "main") as backup:
            backup.step()
        source.close()
        target.close()
        await bucket.kv.cas("b", b"after", None)
        shutil.copytree(root / layout.BLOBS, copy / layout.BLOBS)
        shutil.copy(root / layout.VERSION, copy)
        return name

    name = opened(root, scenario)

    async def look(bucket: FolderBucket) -> None:
        assert [(cell.key, cell.value) for cell in await bucket.kv.list("")] == [("a", name.encode())]
        assert await bucket.blobs.get(name) == b"content"

    opened(copy, look)


def test_other_programs_may_read_the_control_database_while_it_is_open(root: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        await bucket.kv.cas("a", b"one", None)
        reader = apsw.Connection(str(root / layout.CONTROL), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("begin")
        assert reader.execute("select value from cell").fetchall() == [(b"one",)]
        assert isinstance(await bucket.kv.cas("b", b"two", None), int)
        reader.close()

    opened(root, scenario)
