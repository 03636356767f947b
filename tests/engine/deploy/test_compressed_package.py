"""Components are stored as their difference from a template, and put together exactly or rejected."""

import asyncio
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import BlobCorrupt, BlobMissing, Digest
from engine.deploy.gc import GRACE_NS, collect_garbage
from engine.deploy.package_store import (
    COMPONENT,
    Package,
    PackageError,
    decode,
    evict_unpacked,
    pack,
    pack_compressed,
    unpack,
)
from engine.files.compressed import compress
from engine.wasm.compile.component_file import TEMPLATE, ComponentRejected, read_component
from tests.engine.deploy.packing import component_artifact, opened, store
from tests.lanes.components import component

CODE = "".join(f'(func (export "f{number}") (result i32) (i32.const {number}))' for number in range(300))
PACKAGES = 12
MAP = b'{"version":3,"sources":[]}' * 9


def artifact(folder: Path, note: str, *, template: bool = True) -> ComponentArtifact:
    """Return an artifact that differs little from its template."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "template.zst"
    path.write_bytes(compress(component(note="template", code=CODE)))
    made = component_artifact(folder, note)
    content = component(note=note, code=CODE)
    made.component.write_bytes(content)
    digest = sha256(content).hexdigest()
    return replace(
        made, digest=digest, script="run('ü')", source_map=MAP, template=path if template else None
    )


def whole(found: object) -> bytes:
    assert isinstance(found, ComponentArtifact)
    return read_component(found.component, found.digest)


@pytest.mark.parametrize("template", [True, False])
def test_component_round_trips(tmp_path: Path, template: bool) -> None:
    made = artifact(tmp_path, "one", template=template)
    packed = pack_compressed(made)
    assert decode(packed.package.encode()) == packed.package
    assert packed.package.artifact == made.digest
    size = sum(len(each) for each in packed.contents.values() if isinstance(each, bytes))
    assert size < made.component.stat().st_size

    async def scenario(bucket: FolderBucket) -> None:
        package = (await store(bucket.blobs, packed)).package
        for _ in range(2):
            found = await unpack(bucket.blobs, package, tmp_path / "unpacked")
            assert isinstance(found, ComponentArtifact)
            assert whole(found) == made.component.read_bytes()
            assert (found.digest, found.script, found.source_map) == (made.digest, made.script, MAP)

    opened(tmp_path / "bucket", scenario)


def test_second_component_sends_its_difference_only(tmp_path: Path) -> None:
    one, two = (pack_compressed(artifact(tmp_path / note, note)) for note in ("one", "two"))

    async def scenario(bucket: FolderBucket) -> None:
        assert (await store(bucket.blobs, one)).sent == 4  # difference, template, script, source map
        assert (await store(bucket.blobs, two)).sent == 1
        part = two.package.files[COMPONENT]
        assert part.stored[0].size < part.size / 10

    opened(tmp_path / "bucket", scenario)


def test_unpacked_packages_share_one_template(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        roots = []
        for note in ("one", "two"):
            packed = pack_compressed(artifact(tmp_path / note, note))
            package = (await store(bucket.blobs, packed)).package
            found = await unpack(bucket.blobs, package, tmp_path / "unpacked")
            assert isinstance(found, ComponentArtifact)
            roots.append(found.component.parent)
        assert len({(root / TEMPLATE).stat().st_ino for root in roots}) == 1
        needed = {Digest(root.name) for root in roots}
        assert await evict_unpacked(tmp_path / "unpacked", needed, 1 << 62) == 1
        assert all((root / TEMPLATE).exists() for root in roots)

    opened(tmp_path / "bucket", scenario)


def test_packages_that_are_unpacked_at_once_copy_their_template_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [artifact(tmp_path / str(number), f"number {number}") for number in range(PACKAGES)]

    async def scenario(bucket: FolderBucket) -> None:
        copied: list[Digest] = []
        copy_to = bucket.blobs.copy_to

        async def counted(digest: Digest, target: Path) -> None:
            copied.append(digest)
            await copy_to(digest, target)

        monkeypatch.setattr(bucket.blobs, "copy_to", counted)
        digests = [(await store(bucket.blobs, pack_compressed(each))).package for each in made]
        found = await asyncio.gather(*(unpack(bucket.blobs, each, tmp_path / "unpacked") for each in digests))
        assert [whole(each) for each in found] == [each.component.read_bytes() for each in made]
        template = pack_compressed(made[0]).package.template
        assert template is not None and copied.count(template.digest) == 1

    opened(tmp_path / "bucket", scenario)


def test_plain_package_of_older_svc_is_read(tmp_path: Path) -> None:
    made = artifact(tmp_path, "one")
    packed = pack(made)
    assert b'"version":1' in packed.package.encode()

    async def scenario(bucket: FolderBucket) -> None:
        package = (await store(bucket.blobs, packed)).package
        assert whole(await unpack(bucket.blobs, package, tmp_path / "unpacked")) == (
            made.component.read_bytes()
        )

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize("lost", [0, 1])
def test_missing_or_damaged_blob_is_named(tmp_path: Path, lost: int) -> None:
    packed = pack_compressed(artifact(tmp_path, "one"))
    digest = packed.package.files[COMPONENT].stored[lost].digest

    async def scenario(bucket: FolderBucket) -> None:
        package = (await store(bucket.blobs, packed)).package
        blob = tmp_path / "bucket" / "blobs" / digest
        blob.chmod(0o644)
        blob.write_bytes(b"damaged")
        with pytest.raises(BlobCorrupt, match=digest):
            await unpack(bucket.blobs, package, tmp_path / "unpacked")
        with pytest.raises(BlobMissing, match=digest):
            await unpack(bucket.blobs, package, tmp_path / "unpacked")
        await store(bucket.blobs, packed)  # as the client does then
        assert whole(await unpack(bucket.blobs, package, tmp_path / "unpacked"))

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize("name", [COMPONENT, TEMPLATE, "source.map"])
def test_damaged_unpacked_file_is_unpacked_again(tmp_path: Path, name: str) -> None:
    packed = pack_compressed(artifact(tmp_path, "one"))

    async def scenario(bucket: FolderBucket) -> None:
        package = (await store(bucket.blobs, packed)).package
        found = await unpack(bucket.blobs, package, tmp_path / "unpacked")
        assert isinstance(found, ComponentArtifact)
        file = found.component.with_name(name)
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content[:-1])
        again = await unpack(bucket.blobs, package, tmp_path / "unpacked")
        assert again == found
        assert whole(again)
        assert file.read_bytes() == content

    opened(tmp_path / "bucket", scenario)


def test_forged_package_is_rejected(tmp_path: Path) -> None:
    """A difference that is cut, or of another template, without one, or of another component."""
    packed, other = (pack_compressed(artifact(tmp_path / note, note)) for note in ("one", "two"))
    part = packed.package.files[COMPONENT]
    own, template = part.stored
    another = other.package.files[COMPONENT].stored[0]
    frame = packed.contents[own.digest]
    assert isinstance(frame, bytes)
    cut, text = frame[:-2], frame + b"x"
    blobs = {each: sha256(each).hexdigest() for each in (cut, text)}
    forms = {
        "another component's": (another, template),
        "another template": (own, another),
        "no template": (own,),
        "cut": (replace(own, digest=Digest(blobs[cut]), size=len(cut)), template),
        "longer": (replace(own, digest=Digest(blobs[text]), size=len(text)), template),
    }

    async def scenario(bucket: FolderBucket) -> None:
        await store(bucket.blobs, other)
        await store(bucket.blobs, packed)
        for kind, stored in forms.items():
            files = packed.package.files | {COMPONENT: replace(part, stored=stored)}  # type: ignore[operator]
            contents = dict(packed.contents) | {Digest(digest): data for data, digest in blobs.items()}
            forged = replace(packed, package=Package("component", files), contents=contents)
            package = (await store(bucket.blobs, forged)).package
            found = await unpack(bucket.blobs, package, tmp_path / "unpacked")
            with pytest.raises(
                ComponentRejected, match=f"is not the component sha256:{part.digest}"
            ) as error:
                whole(found)
            assert str(tmp_path) not in error.value.message, kind

    opened(tmp_path / "bucket", scenario)


def test_other_component_without_a_frame_is_rejected(tmp_path: Path) -> None:
    """Its machine code would be that of the component that the package names."""
    packed, other = (pack(artifact(tmp_path / note, note)) for note in ("one", "two"))
    part, another = packed.package.files[COMPONENT], other.package.files[COMPONENT]
    files = {COMPONENT: replace(part, stored=(another,))}
    forged = replace(other, package=Package("component", files))

    async def scenario(bucket: FolderBucket) -> None:
        package = (await store(bucket.blobs, forged)).package
        with pytest.raises(PackageError, match=r"component\.wasm is not compressed"):
            await unpack(bucket.blobs, package, tmp_path / "unpacked")

    opened(tmp_path / "bucket", scenario)


def test_forged_source_map_is_rejected(tmp_path: Path) -> None:
    packed = pack_compressed(artifact(tmp_path, "one"))
    files = dict(packed.package.files)
    files["source.map"] = replace(files["source.map"], stored=files["script.js"].stored)
    forged = replace(packed, package=Package("component", files))

    async def scenario(bucket: FolderBucket) -> None:
        package = (await store(bucket.blobs, forged)).package
        with pytest.raises(PackageError, match=r"source\.map has another digest"):
            await unpack(bucket.blobs, package, tmp_path / "unpacked")

    opened(tmp_path / "bucket", scenario)


def test_damaged_template_of_the_lane_is_named(tmp_path: Path) -> None:
    made = artifact(tmp_path, "one")
    assert made.template is not None
    made.template.write_bytes(b"no frame")
    with pytest.raises(PackageError, match="cannot compress the artifact"):
        pack_compressed(made)
    made.template.unlink()
    with pytest.raises(PackageError, match="cannot compress the artifact"):
        pack_compressed(made)


def test_garbage_collection_removes_a_template_with_its_last_package(tmp_path: Path) -> None:
    packed = pack_compressed(artifact(tmp_path, "one"))

    async def scenario(bucket: FolderBucket) -> None:
        package = (await store(bucket.blobs, packed)).package
        await unpack(bucket.blobs, package, tmp_path / "unpacked")
        now = max([blob.used_ns async for blob in bucket.blobs.list()])
        report = await collect_garbage(bucket, now + GRACE_NS, unpacked=tmp_path / "unpacked")
        assert report.blobs == 0 or report.blobs < 5  # The newest is within the grace period.
        report = await collect_garbage(bucket, now + 2 * GRACE_NS, unpacked=tmp_path / "unpacked")
        assert [blob async for blob in bucket.blobs.list()] == []
        assert report.unpacked == 2  # the package and the template
        assert not any((tmp_path / "unpacked" / "templates").iterdir())

    opened(tmp_path / "bucket", scenario)
