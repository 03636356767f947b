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
from engine.bucket.folder import FolderBucket
from engine.bucket.layout import lock
from engine.bucket.protocols import BlobCorrupt, BlobMissing, BucketError, BucketInUse, Digest, DigestMismatch
from tests.support.blobs import exists, put

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
from pathlib import Path
from engine.bucket.folder import FolderBucket
bucket = FolderBucket(Path(sys.argv[1]), "svc serve --data ü")
print("open", flush=True)
sys.stdin.read()
"""
UNPRIVILEGED = """
import asyncio, os, sys
from pathlib import Path
from engine.bucket.protocols import BucketError
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


def test_open_of_bucket_in_use_names_process_until_it_ends(root: Path) -> None:
    with python(HOLD, root) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(BucketInUse) as exc_info:
            FolderBucket(root)
        assert f"in use by process {holder.pid} (svc serve --data ü)" in exc_info.value.message
        holder.kill()
        holder.wait()
    opened(root)


def test_second_open_in_one_process_raises_bucket_in_use(root: Path) -> None:
    async def scenario(_bucket: FolderBucket) -> None:
        with pytest.raises(BucketInUse):
            FolderBucket(root)

    opened(root, scenario)
    opened(root)


def test_failed_open_releases_lock(root: Path) -> None:
    opened(root)
    (root / layout.VERSION).write_text("?")
    with pytest.raises(BucketError):
        FolderBucket(root)
    os.close(lock(root, "test"))


def test_open_of_folder_with_other_files_raises(root: Path) -> None:
    root.mkdir()
    (root / "mine.txt").write_text("of a user")
    with pytest.raises(BucketError, match=r"is not a bucket and not empty: it has 'mine\.txt'"):
        FolderBucket(root)
    assert {path.name for path in root.iterdir()} == {"mine.txt"}


def test_root_of_a_filesystem_becomes_a_bucket(root: Path) -> None:
    (root / "lost+found").mkdir(parents=True)
    opened(root)
    assert (root / layout.VERSION).is_file()


def test_open_of_file_raises(root: Path) -> None:
    root.write_text("a file")
    with pytest.raises(BucketError, match="cannot use"):
        FolderBucket(root)


def test_bucket_of_newer_svc_raises_and_stays_unchanged(root: Path) -> None:
    opened(root)
    newer = layout.CURRENT + 1
    (root / layout.VERSION).write_text(f"svc bucket, layout {newer}\n")
    with pytest.raises(
        BucketError, match=rf"newer svc .*\(layout {newer}; this svc supports {layout.CURRENT}\)"
    ):
        FolderBucket(root)
    assert (root / layout.VERSION).read_text() == f"svc bucket, layout {newer}\n"


@pytest.mark.parametrize("text", ["", "1\n", "svc bucket, layout 0\n", "svc bucket, layout 1", "\xff\0"])
def test_invalid_version_file_raises(root: Path, text: str) -> None:
    opened(root)
    (root / layout.VERSION).write_bytes(text.encode("latin-1"))
    with pytest.raises(BucketError, match="version is corrupt"):
        FolderBucket(root)


def test_older_layout_becomes_the_current_one(root: Path) -> None:
    opened(root)
    (root / layout.VERSION).write_text("svc bucket, layout 1\n")
    layout.prepare(root)
    assert (root / layout.VERSION).read_text() == f"svc bucket, layout {layout.CURRENT}\n"


@pytest.fixture
def open_to_others() -> Iterator[Path]:
    """A folder that every user may read, unlike the folders of pytest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
def test_unwritable_folder_raises_with_path_and_hint(open_to_others: Path, exists: bool) -> None:
    root = open_to_others / "bucket" if exists else open_to_others
    if exists:
        opened(root)
    root.chmod(0o555)
    with python(UNPRIVILEGED, root) as child:
        assert child.stdout is not None
        output = child.stdout.read()
    if exists and os.getuid() != 0:
        assert output == ""  # its owner may still write the files
        return
    message, _, hint = output.partition("|")
    assert message.endswith("Permission denied")
    assert str(root) in message
    assert "the user running svc can write" in hint
    root.chmod(0o755)


def test_corrupt_control_database_raises_and_stays_unchanged(root: Path) -> None:
    async def fill(bucket: FolderBucket) -> None:
        for number in range(200):
            await bucket.kv.cas(f"key {number}", bytes(500), None)

    opened(root, fill)
    path = root / layout.CONTROL
    content = path.read_bytes()
    for damaged in (b"no database" * 1000, content[:8192] + os.urandom(20_000) + content[28_192:]):
        path.write_bytes(damaged)
        with pytest.raises(BucketError, match=r"control\.db is corrupt") as exc_info:
            FolderBucket(root)
        assert "Restore it from a backup" in exc_info.value.hint
        assert path.read_bytes() == damaged
    path.write_bytes(content)
    opened(root)


@pytest.mark.parametrize(
    "change", [lambda c: c[:-1], lambda c: c + b"!", lambda c: b"", lambda c: b"X" + c[1:]]
)
def test_modified_blob_is_never_returned_and_is_uploaded_again(
    root: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    content = b"a" + os.urandom(2_499_999)  # not X, which one of the changes begins with

    async def scenario(bucket: FolderBucket) -> None:
        for look in ("get", "copy_to", "read"):
            name = await put(bucket.blobs, content)
            path = root / layout.BLOBS / name
            path.chmod(0o644)
            path.write_bytes(change(content))
            observed = b""
            with pytest.raises(BlobCorrupt) as exc_info:
                if look == "get":
                    await bucket.blobs.get(name)
                elif look == "copy_to":
                    await bucket.blobs.copy_to(name, tmp_path / "copy")
                else:
                    async for chunk in bucket.blobs.read(name):
                        observed += chunk
            assert len(observed) < max(len(content), 1)
            quarantined = root / layout.DAMAGED / name
            assert str(quarantined) in exc_info.value.message
            assert quarantined.read_bytes() == change(content)
            assert not await exists(bucket.blobs, name)
            with pytest.raises(BlobMissing):
                await bucket.blobs.get(name)
        assert not (tmp_path / "copy").exists()
        assert await bucket.blobs.get(await put(bucket.blobs, content)) == content

    opened(root, scenario)


def test_upload_modified_on_disk_raises_digest_mismatch(root: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        name = await put(bucket.blobs, b"content")
        assert await bucket.blobs.delete(name, 1 << 62)
        (root / layout.UPLOADS / name).write_bytes(b"CON")

        async def rest() -> Any:
            yield b"tent"

        with pytest.raises(DigestMismatch):
            await bucket.blobs.upload(name, 7, 3, rest())
        assert await bucket.blobs.received(name) == 0

    opened(root, scenario)


def test_list_ignores_foreign_files(root: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        name = await put(bucket.blobs, b"content")
        for stray in (".DS_Store", name.upper(), name + "~"):
            (root / layout.BLOBS / stray).write_bytes(b"stray")
        assert [info.digest async for info in bucket.blobs.list()] == [name]

    opened(root, scenario)


def test_copy_to_creates_read_only_hard_link(root: Path, tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        name = await put(bucket.blobs, b"content")
        await bucket.blobs.copy_to(name, tmp_path / "copy")
        assert (tmp_path / "copy").samefile(root / layout.BLOBS / name)
        assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o444

    opened(root, scenario)


def test_copy_to_other_file_system_creates_file(root: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second file system here")
    with tempfile.TemporaryDirectory(dir=other) as folder:

        async def scenario(bucket: FolderBucket) -> None:
            await bucket.blobs.copy_to(await put(bucket.blobs, b"content"), Path(folder) / "copy")
            assert (Path(folder) / "copy").read_bytes() == b"content"
            with pytest.raises(FileExistsError):
                await bucket.blobs.copy_to(await put(bucket.blobs, b"other"), Path(folder) / "copy")
            assert (Path(folder) / "copy").read_bytes() == b"content"

        opened(root, scenario)


def test_backup_of_open_bucket_in_documented_order_is_complete(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()

    async def scenario(bucket: FolderBucket) -> Digest:
        name = await put(bucket.blobs, b"content")
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


def test_other_process_can_read_open_control_database(root: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        await bucket.kv.cas("a", b"one", None)
        reader = apsw.Connection(str(root / layout.CONTROL), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("begin")
        assert reader.execute("select value from cell").fetchall() == [(b"one",)]
        assert isinstance(await bucket.kv.cas("b", b"two", None), int)
        reader.close()

    opened(root, scenario)
