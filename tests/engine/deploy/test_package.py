"""Artifacts round-trip through packages of blobs; unchanged blobs are not sent again."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from engine.artifact import Artifact, ComponentArtifact, FolderArtifact, StaticBundle
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import BlobCorrupt, BlobMissing, Digest
from engine.deploy import package_store
from engine.deploy.package_store import (
    SMALL_BYTES,
    VERSION,
    Package,
    PackageError,
    PackageFile,
    decode,
    load,
    missing,
    pack,
    touch,
    unpack,
)
from engine.gateway.static.source import BundleSource, StaticFile
from engine.static_files import bundle
from engine.static_files.bundle import blob_path, read_index
from tests.engine.deploy.packing import FILES, component_artifact, image_artifact, opened, store, stored
from tests.lanes.components import component
from tests.support.blobs import put

FOREVER = 1 << 62


def build_artifact(kind: str, folder: Path) -> Artifact:
    if kind == "image":
        return image_artifact(folder)
    script, source_map = ("run('ü')", b'{"version":3}\xff') if kind == "js" else (None, None)
    return component_artifact(folder, script=script, source_map=source_map)


def check_same(found: Artifact, artifact: Artifact) -> None:
    if isinstance(artifact, ComponentArtifact):
        assert isinstance(found, ComponentArtifact)
        assert found.component.read_bytes() == artifact.component.read_bytes()
        assert found == replace(artifact, component=found.component, inputs=frozenset())
        return
    assert isinstance(artifact, StaticBundle)
    assert isinstance(found, StaticBundle)
    assert read_index(found) == read_index(artifact)
    source = BundleSource(found)
    for name, text in FILES.items():
        file = source.find(name)
        assert isinstance(file, StaticFile)
        assert Path(file.representations["identity"].path).read_bytes() == text.encode()
    for entry in read_index(artifact):
        for digest, _ in entry.encodings.values():
            assert (
                blob_path(found.folder, digest).read_bytes()
                == blob_path(artifact.folder, digest).read_bytes()
            )


@pytest.mark.parametrize("kind", ["image", "js", "go"])
def test_artifact_round_trips_through_package(tmp_path: Path, kind: str) -> None:
    artifact = build_artifact(kind, tmp_path / "build ü")

    async def scenario(bucket: FolderBucket) -> None:
        package = (await stored(bucket, artifact)).package
        moved = artifact
        check_same(await unpack(bucket.blobs, package, tmp_path / "unpacked"), moved)
        check_same(await unpack(bucket.blobs, package, tmp_path / "unpacked"), moved)
        names = {path.name for path in (tmp_path / "unpacked").iterdir()}
        assert names == {package}

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize("kind", ["image", "js", "go"])
def test_equal_artifacts_share_package_and_are_sent_once(tmp_path: Path, kind: str) -> None:
    one, two = pack(build_artifact(kind, tmp_path / "one")), pack(build_artifact(kind, tmp_path / "two"))
    assert one.package.encode() == two.package.encode()

    name = build_artifact(kind, tmp_path / "three").digest  # type: ignore[union-attr]

    async def scenario(bucket: FolderBucket) -> None:
        assert await missing(bucket.blobs, one.package) == one.package.digests
        first = await store(bucket.blobs, one)
        assert first.sent == len(one.package.digests)
        second = await store(bucket.blobs, two)
        assert (second.package, second.sent) == (first.package, 0)
        assert await load(bucket.blobs, first.package) == one.package
        assert one.package.artifact == name

    opened(tmp_path / "bucket", scenario)


def test_changed_image_sends_changed_files_only(tmp_path: Path) -> None:
    before = image_artifact(tmp_path / "one")
    after = image_artifact(tmp_path / "two", FILES | {"index.html": "<p>new</p>"})

    async def scenario(bucket: FolderBucket) -> None:
        await stored(bucket, before)
        assert (await stored(bucket, after)).sent == 2  # the page, too small to be compressed, and the index

    opened(tmp_path / "bucket", scenario)


def test_pack_of_folder_artifact_raises(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="has no artifact"):
        pack(FolderArtifact(tmp_path))


def test_pack_of_changed_or_missing_artifact_raises(tmp_path: Path) -> None:
    artifact = component_artifact(tmp_path / "build")
    artifact.component.write_bytes(b"something else")
    with pytest.raises(PackageError, match="has changed since it was built"):
        pack(artifact)
    artifact.component.unlink()
    with pytest.raises(PackageError, match="cannot read"):
        pack(artifact)


@pytest.mark.parametrize("kind", ["image", "js", "go"])
def test_unpack_of_missing_or_corrupt_blobs_raises(tmp_path: Path, kind: str) -> None:
    artifact = build_artifact(kind, tmp_path / "build")

    async def scenario(bucket: FolderBucket) -> None:
        package = (await stored(bucket, artifact)).package
        for digest in sorted((await touch(bucket.blobs, package)).digests | {package}):
            assert await bucket.blobs.delete(digest, FOREVER)
            with pytest.raises(BlobMissing):
                await touch(bucket.blobs, package)
            with pytest.raises(BlobMissing):
                await unpack(bucket.blobs, package, tmp_path / "unpacked")
            assert list((tmp_path / "unpacked").iterdir() if (tmp_path / "unpacked").exists() else []) == []
            await stored(bucket, artifact)
            path = bucket.root / "blobs" / digest
            path.chmod(0o644)
            path.write_bytes(b"damaged")
            with pytest.raises(BlobCorrupt):
                await unpack(bucket.blobs, package, tmp_path / "unpacked")
            await stored(bucket, artifact)
        check_same(await unpack(bucket.blobs, package, tmp_path / "unpacked"), artifact)

    opened(tmp_path / "bucket", scenario)


def test_modified_unpacked_package_is_unpacked_again(tmp_path: Path) -> None:
    artifact = build_artifact("image", tmp_path / "build")

    async def scenario(bucket: FolderBucket) -> None:
        package = (await stored(bucket, artifact)).package
        root = tmp_path / "unpacked" / package
        for name in ("index.json", "blobs"):
            check_same(await unpack(bucket.blobs, package, root.parent), artifact)
            (root / name).rename(tmp_path / name)
        check_same(await unpack(bucket.blobs, package, root.parent), artifact)

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize("kind", ["image", "js", "go"])
def test_unpacked_package_is_used_without_the_bucket(tmp_path: Path, kind: str) -> None:
    artifact = build_artifact(kind, tmp_path / "build")

    async def scenario(bucket: FolderBucket) -> None:
        package = (await stored(bucket, artifact)).package
        folder = tmp_path / "unpacked"
        check_same(await unpack(bucket.blobs, package, folder), artifact)
        blob = bucket.root / "blobs" / package
        document = blob.read_bytes()
        blob.unlink()
        check_same(await unpack(bucket.blobs, package, folder), artifact)
        (folder / package / "package.json").write_bytes(document[:-1])
        with pytest.raises(BlobMissing):
            await unpack(bucket.blobs, package, folder)

    opened(tmp_path / "bucket", scenario)


def test_unpack_into_unwritable_folder_raises(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        package = (await stored(bucket, build_artifact("js", tmp_path / "build"))).package
        (tmp_path / "file").write_text("a file")
        with pytest.raises(PackageError, match=r"cannot unpack package sha256:.* to "):
            await unpack(bucket.blobs, package, tmp_path / "file")

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize(
    ("digest", "size", "sent"),
    [
        ("../../../../../../../../../../etc/passwd", 1, False),
        ("cd" * 32, 4, False),
        (sha256(b"text").hexdigest(), 5, True),
    ],
)
def test_image_with_missing_or_wrong_blob_is_rejected(
    tmp_path: Path, digest: str, size: int, sent: bool
) -> None:
    index = index_of(digest, size)
    files = {"index.json": index, **({f"blobs/{digest}": b"text"} if sent else {})}
    refused(tmp_path, "image", files)


def test_oversized_document_index_or_script_is_rejected_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = [build_artifact(kind, tmp_path / kind) for kind in ("image", "js")]

    async def scenario(bucket: FolderBucket) -> None:
        packages = [await stored(bucket, artifact) for artifact in artifacts]
        for module, name, package, words in (
            (package_store, "MAX_DOCUMENT_BYTES", packages[0], "the document of the package is larger"),
            (package_store, "MAX_TEXT_BYTES", packages[1], "script.js is larger"),
            (bundle, "MAX_INDEX_BYTES", packages[0], "index is larger"),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, 5)
                with pytest.raises(PackageError) as exc_info:
                    await unpack(bucket.blobs, package.package, tmp_path / "unpacked")
                cause = exc_info.value.__cause__ or exc_info.value
                assert words in str(cause)
            await unpack(bucket.blobs, package.package, tmp_path / "unpacked")

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize("index", [b"", b"{}", b"\xff", b"[" * 100_000])
def test_image_with_invalid_index_is_rejected(tmp_path: Path, index: bytes) -> None:
    refused(tmp_path, "image", {"index.json": index})


def test_script_of_invalid_utf8_is_rejected(tmp_path: Path) -> None:
    refused(tmp_path, "component", {"component.wasm": component(), "script.js": b"\xff"})


@pytest.mark.parametrize("name", ["component.wasm", "script.js"])
def test_size_that_is_not_that_of_the_blob_is_rejected(tmp_path: Path, name: str) -> None:
    refused(tmp_path, "component", {"component.wasm": component(), "script.js": b"x"}, {name: 1 << 40})


def test_two_files_of_one_path_are_rejected(tmp_path: Path) -> None:
    digest = sha256(b"text").hexdigest()
    refused(tmp_path, "image", {"index.json": index_of(digest, 4, entries=2), f"blobs/{digest}": b"text"})


def index_of(digest: str, size: int, *, entries: int = 1) -> bytes:
    entry = {"path": "a.txt", "type": "text/plain", "encodings": {"identity": [digest, size]}}
    return json.dumps({"version": 1, "files": [entry] * entries}).encode()


def refused(
    tmp_path: Path, kind: str, files: dict[str, bytes], sizes: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Store a forged package and assert that it is rejected; `sizes` are other ones in its document."""

    async def scenario(bucket: FolderBucket) -> None:
        named = {
            name: [await put(bucket.blobs, data), sizes.get(name, len(data))] for name, data in files.items()
        }
        document = {"version": 1, "kind": kind, "files": named}
        package = await put(bucket.blobs, json.dumps(document).encode())
        with pytest.raises(PackageError) as exc_info:
            await unpack(bucket.blobs, package, tmp_path / "unpacked")
        assert str(tmp_path) not in exc_info.value.message + exc_info.value.hint

    opened(tmp_path / "bucket", scenario)


GOOD = {"version": 1, "kind": "component", "files": {"component.wasm": ["0" * 64, 5]}}


STORED = GOOD | {"version": 2}
BLOB = ["1" * 64, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        STORED,
        STORED | {"stored": []},
        STORED | {"stored": {"component.wasm": 5}},
        STORED | {"stored": {"component.wasm": [BLOB, BLOB, BLOB]}},
        STORED | {"stored": {"component.wasm": [["1" * 63, 3]]}},
        STORED | {"stored": {"script.js": [BLOB]}},
        STORED | {"files": STORED["files"] | {"script.js": BLOB}, "stored": {"script.js": [BLOB, BLOB]}},
        STORED | {"kind": "image", "files": {"index.json": BLOB}, "stored": {"index.json": [BLOB]}},
        [],
        {},
        GOOD | {"version": 0},
        GOOD | {"version": "1"},
        GOOD | {"kind": "folder"},
        GOOD | {"kind": ["component"]},
        GOOD | {"files": {}},
        GOOD | {"files": []},
        GOOD | {"files": {"component.wasm": ["0" * 63, 5]}},
        GOOD | {"files": {"component.wasm": ["0" * 64, -5]}},
        GOOD | {"files": {"component.wasm": ["0" * 64, True]}},
        GOOD | {"files": {"component.wasm": ["0" * 64]}},
        GOOD | {"files": {"component.wasm": ["0" * 64, 5], "../../escaped": ["0" * 64, 5]}},
        GOOD | {"files": {"component.wasm": ["0" * 64, 5], "script.js\n": ["0" * 64, 5]}},
        GOOD | {"files": {"component.wasm": ["0" * 64, 5], "index.json": ["0" * 64, 5]}},
        GOOD | {"kind": "image", "files": {"index.json": ["0" * 64, 5], "blobs/..": ["0" * 64, 5]}},
        GOOD | {"kind": "image", "files": {"index.json": ["0" * 64, 5], f"blobs/{'1' * 64}": ["0" * 64, 5]}},
        GOOD | {"kind": "image", "files": {f"blobs/{'0' * 64}": ["0" * 64, 5]}},
    ],
)
def test_invalid_package_document_raises(wrong: Any) -> None:
    with pytest.raises(PackageError, match="package is corrupt"):
        decode(json.dumps(wrong).encode())


@pytest.mark.parametrize("text", [b"", b"\xff", b"{", b"[" * 100_000])
def test_invalid_json_raises(text: bytes) -> None:
    with pytest.raises(PackageError, match="package is corrupt"):
        decode(text)


def test_package_of_newer_svc_raises() -> None:
    assert decode(json.dumps(GOOD).encode()).artifact == Digest("0" * 64)
    with pytest.raises(PackageError, match="newer svc"):
        decode(json.dumps(GOOD | {"version": VERSION + 1, "kind": "other"}).encode())


def large_package(files: int) -> Package:
    digests = [sha256(str(number).encode()).hexdigest() for number in range(files)]
    entries = {f"blobs/{digest}": PackageFile(Digest(digest), size) for size, digest in enumerate(digests)}
    return Package("image", {"index.json": PackageFile(Digest(digests[0]), 1)} | entries)


def test_large_document_is_read_file_by_file() -> None:
    package = large_package(10_000)
    document = package.encode()
    assert len(document) > SMALL_BYTES
    assert decode(document) == package
    with pytest.raises(PackageError, match="newer svc"):
        decode(document.replace(b'"version":1', b'"version":3'))
    spaced, nested = document.replace(b":", b": "), document.replace(b'"files":{', b'"files":{"a":[],', 1)
    for invalid in (
        spaced,
        nested,
        document[:-1],
        b"[" * len(document),
        b'{"files":[' + b"[]," * (1 << 20) + b"[]]}",
    ):
        with pytest.raises(PackageError, match="not a package document"):
            decode(invalid)


def test_missing_blob_ends_the_check_of_many(tmp_path: Path) -> None:
    package = large_package(3000)

    async def scenario(bucket: FolderBucket) -> None:
        assert await missing(bucket.blobs, package) == package.digests
        tasks = len(asyncio.all_tasks())
        check = asyncio.create_task(missing(bucket.blobs, package))
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) < tasks + 20
        await check

    opened(tmp_path / "bucket", scenario)
