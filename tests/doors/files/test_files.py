"""Requests of guests: keys, streams, ranges, conditions, listings, limits and damage."""

import asyncio
import errno
import json
import random
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from doors.files import store
from doors.tables.door import TablesDoor
from doors.tables.sqlite import owner
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection
from doors.tables.sqlite.owner import open_for_writing
from engine.bucket.protocols import PART_BYTES
from engine.door import Stored
from engine.errors import SvcError
from engine.quota import Quota
from svc_tui.composition import doors
from tests.doors.files.files_door import Files, broken

LONG, EMOJI = "a" * 513, "%F0%9F%98%80" * 129
CONTENT = random.Random(1).randbytes(3 * PART_BYTES + 12_345)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_file_is_returned_with_its_fields_and_metadata(files: Files) -> None:
    async def test() -> None:
        created = await files.put(
            "videos/c%C3%A4t.mp4", CONTENT, content_type="video/mp4", x_svc_meta='{"by": "\\u00e4nn"}'
        )
        assert created.status == 201 and created.document["key"] == "videos/cät.mp4"
        answer = await files.get("videos/c%C3%A4t.mp4")
        assert answer.body == CONTENT and answer.headers["content-length"] == str(len(CONTENT))
        assert answer.headers["content-type"] == "video/mp4"
        assert json.loads(answer.headers["x-svc-meta"]) == {"by": "änn"}
        assert answer.headers["etag"] == created.headers["etag"]
        head = await files.ask("HEAD", "/v1/files/videos/c%C3%A4t.mp4")
        assert (head.status, head.body) == (200, b"") and head.headers == answer.headers
        assert (await files.ask("DELETE", "/v1/files/videos/c%C3%A4t.mp4")).status == 204
        assert (await files.get("videos/c%C3%A4t.mp4")).code == "not-found"
        assert (await files.ask("DELETE", "/v1/files/videos/c%C3%A4t.mp4")).status == 204

    asyncio.run(test())


def test_two_thousand_random_ranges_are_those_of_the_content(files: Files) -> None:
    rng = random.Random(2)

    async def test() -> None:
        await files.put("a", CONTENT)
        size = len(CONTENT)
        for _ in range(2000):
            near = rng.choice([0, PART_BYTES, 2 * PART_BYTES, size])
            start = max(0, near + rng.randint(-3000, 3000))
            stop = start + rng.choice([0, 1, 100, rng.randint(0, 40_000)])
            text = rng.choice([f"{start}-{stop}", f"{start}-{stop}", f"-{size - start}"])
            answer = await files.get("a", range=f"bytes={text}")
            expected = CONTENT[start : stop + 1] if text[0] != "-" else CONTENT[start:]
            if text.startswith("--"):  # An invalid range is ignored.
                assert answer.status == 200
            elif not expected:
                assert answer.status == 416 and answer.headers["content-range"] == f"bytes */{size}"
            else:
                assert answer.status == 206 and answer.body == expected, text
                bounds = f"bytes {start}-{start + len(expected) - 1}/{size}"
                assert answer.headers["content-range"] == bounds

    asyncio.run(test())


@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", "..", "a/../b", ".", "a/.", "%00", "%C2%85", "%FF", "%ED%A0%80", LONG, EMOJI],
)
def test_invalid_keys_are_refused_with_the_reason(files: Files, key: str) -> None:
    async def test() -> None:
        for method in ("PUT", "GET", "DELETE"):
            answer = await files.ask(method, f"/v1/files/{key}", b"x")
            assert (answer.status, answer.code) == (400, "bad-key") and answer.document["detail"]

    asyncio.run(test())


@pytest.mark.parametrize("key", ["a", "a/b.c/..d", "%F0%9F%98%80" * 128, "a" * 512, "%25", "a b", "?"])
def test_valid_keys_are_stored(files: Files, key: str) -> None:
    async def test() -> None:
        path = key.replace(" ", "%20").replace("?", "%3F")
        assert (await files.put(path, b"x")).status == 201
        assert await files.content(path) == b"x"

    asyncio.run(test())


def test_writes_obey_their_conditions(files: Files) -> None:
    async def test() -> None:
        assert (await files.put("a", b"1", if_match='"x"')).code == "precondition"
        first = await files.put("a", b"1", if_none_match="*")
        assert first.status == 201
        assert (await files.put("a", b"2", if_none_match="*")).code == "precondition"
        assert (await files.put("a", b"2", if_match='"other"')).code == "precondition"
        assert await files.content("a") == b"1"
        second = await files.put("a", b"2", if_match=first.headers["etag"])
        assert second.status == 201
        assert (await files.ask("DELETE", "/v1/files/a", if_match=first.headers["etag"])).status == 412
        assert (await files.get("a", if_none_match=second.headers["etag"])).status == 304
        assert (await files.get("a", if_match=first.headers["etag"])).status == 412
        fresh = await files.get("a", range="bytes=0-0", if_range=first.headers["etag"])
        assert (fresh.status, fresh.body) == (200, b"2")
        assert (await files.ask("DELETE", "/v1/files/a", if_match=second.headers["etag"])).status == 204

    asyncio.run(test())


def test_condition_is_checked_again_when_the_bytes_are_stored(files: Files) -> None:
    async def test() -> None:
        async def slow() -> AsyncGenerator[bytes, None]:
            yield b"first"
            assert (await files.put("a", b"second", if_none_match="*")).status == 201
            yield b"end"

        assert (await files.ask("PUT", "/v1/files/a", slow(), if_none_match="*")).code == "precondition"
        assert await files.content("a") == b"second"

    asyncio.run(test())


def test_upload_that_ends_early_or_lies_about_its_length_changes_nothing(files: Files) -> None:
    async def test() -> None:
        await files.put("a", b"old")
        assert (await files.ask("PUT", "/v1/files/a", broken(CONTENT))).code == "incomplete"
        assert (await files.put("a", CONTENT, content_length=str(len(CONTENT) + 1))).code == "length-mismatch"
        assert (await files.put("a", CONTENT, content_length="5")).code == "length-mismatch"
        assert (await files.put("a", CONTENT, content_length=str(6 << 30))).code == "too-large"
        assert (await files.put("a", CONTENT, content_length="-1")).code == "bad-request"
        assert await files.content("a") == b"old" and len(files.stored()) == 1
        assert not list((files.folder / "uploads").iterdir())

    asyncio.run(test())


def test_two_uploads_to_one_key_leave_one_of_them_whole(files: Files) -> None:
    async def test() -> None:
        contents = [random.Random(each).randbytes(2_000_000 + each) for each in range(6)]
        answers = await asyncio.gather(*(files.put("a", content) for content in contents))
        assert {each.status for each in answers} == {201}
        assert await files.content("a") in contents

    asyncio.run(test())


def test_reader_gets_the_file_that_it_began_with(files: Files) -> None:
    async def test() -> None:
        await files.put("a", CONTENT)
        file = await files.door.store.find("a")
        reading = await files.door.store.read(file, 0, file.size)
        got = await anext(reading)
        await files.put("a", b"new")
        await files.ask("DELETE", "/v1/files/a")
        assert got + b"".join([chunk async for chunk in reading]) == CONTENT

    asyncio.run(test())


@pytest.mark.parametrize("number", range(4))
def test_damaged_bytes_are_never_returned(files: Files, number: int) -> None:
    async def test() -> None:
        await files.put("a", CONTENT)
        (path,) = (files.folder / "blobs").iterdir()
        path.chmod(0o644)
        place = min(number * PART_BYTES + 77, len(CONTENT) - 1)
        with path.open("r+b") as blob:
            blob.seek(place)
            blob.write(bytes([CONTENT[place] ^ 1]))
        file = await files.door.store.find("a")
        got = b""
        with pytest.raises(SvcError, match="damaged" if number == 0 else "corrupt"):
            async for chunk in await files.door.store.read(file, 0, file.size):
                got += chunk
        assert got == CONTENT[: number * PART_BYTES]
        for _ in range(2):  # The blob is in damaged/ now.
            answer = await files.get("a", range="bytes=0-0")
            assert (answer.status, answer.code) == (500, "file-damaged")
            assert answer.document["detail"].startswith("the bytes of the file 'a' are damaged: blob sha256:")
            assert "Store the file again" in answer.document["hint"]
        assert (await files.put("a", CONTENT)).status == 201
        assert await files.content("a") == CONTENT

    asyncio.run(test())


def test_full_disk_changes_nothing(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(place: object) -> None:
        raise OSError(errno.ENOSPC, "only 3 MiB of the disk are free")

    async def test() -> None:
        await files.put("a", b"old")
        monkeypatch.setattr("engine.bucket.blobs.check_room", full)
        answer = await files.put("a", CONTENT)
        assert (answer.status, answer.code) == (507, "storage-full")
        assert str(files.folder) not in answer.body.decode()
        assert await files.content("a") == b"old" and not list((files.folder / "uploads").iterdir())

    asyncio.run(test())


def test_listing_has_prefixes_pages_and_the_order_of_bytes(files: Files) -> None:
    async def test() -> None:
        keys = ["a", "a/1", "a/2/x", "a/2/y", "a/3", "a0", "b", "z%C3%A4", "%F0%9F%98%80"]
        for key in keys:
            await files.put(key, b"1")
        page = (await files.ask("GET", "/v1/files?prefix=a/&delimiter=/")).document
        assert [each["key"] for each in page["files"]] == ["a/1", "a/3"]
        assert page["prefixes"] == ["a/2/"] and "cursor" not in page
        found: list[str] = []
        cursor = ""
        for _ in range(20):
            page = (await files.ask("GET", f"/v1/files?limit=1&delimiter=/&cursor={cursor}")).document
            found += [each["key"] for each in page["files"]] + page["prefixes"]
            cursor = page.get("cursor", "").replace("ä", "%C3%A4").replace("😀", "%F0%9F%98%80")
            if not cursor:
                break
        assert found == ["a", "a/", "a0", "b", "zä", "😀"]
        for wrong in ("limit=0", "limit=x", "delimiter=%C3%A4", "other=1"):
            assert (await files.ask("GET", f"/v1/files?{wrong}")).code == "bad-request"

    asyncio.run(test())


def test_copy_shares_the_bytes(files: Files) -> None:
    async def test() -> None:
        await files.put("a", CONTENT)
        answer = await files.ask("POST", "/v1/copy", b'{"from": "a", "to": "b"}')
        assert answer.status == 201 and answer.document["key"] == "b"
        await files.ask("DELETE", "/v1/files/a")
        assert await files.content("b") == CONTENT and len(files.stored()) == 1
        assert (await files.ask("POST", "/v1/copy", b'{"from": "a", "to": "c"}')).code == "not-found"
        assert (await files.ask("POST", "/v1/copy", b'{"from": "b"}')).code == "bad-request"
        assert (await files.ask("POST", "/v1/copy", b"[]")).code == "bad-request"

    asyncio.run(test())


def test_half_of_a_surrogate_pair_in_json_is_refused(files: Files) -> None:
    half = b'"\\ud83c"'

    async def test() -> None:
        await files.put("a", b"before")
        for path, body in (
            ("/v1/copy", b'{"from": %s, "to": "b"}' % half),
            ("/v1/sign", b'{"key": "a", "type": %s}' % half),
            ("/v1/sign", b'{"key": "a", %s: ""}' % half),
        ):
            answer = await files.ask("POST", path, body)
            assert answer.code == "bad-request" and "half of a surrogate pair" in answer.document["detail"]
        for metadata in (b'{"name": %s}' % half, b'{%s: "x"}' % half):
            answer = await files.put("a", b"after", x_svc_meta=metadata.decode())
            assert answer.code == "bad-request" and "half of a surrogate pair" in answer.document["detail"]
        assert await files.content("a") == b"before"

    asyncio.run(test())


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("image/png", True),
        ("Text/Plain ; charset=utf-8", True),
        ("video/webm;codecs=vp8,opus", True),
        ('video/mp4; codecs="avc1.42E01E, mp4a.40.2"', True),
        ("image/png;x,text/html", False),
        ("image/png, image/svg+xml", False),
        ('image/png;a="b,text/html', False),
        ("image/x+xml", False),
        ("text/plain\u00a0", False),
        ("png", False),
        (",", False),
    ],
)
def test_only_types_that_run_no_scripts_are_shown_to_clients(files: Files, kind: str, shown: bool) -> None:
    async def test() -> None:
        url = (await files.ask("POST", "/v1/sign", b'{"key": "a", "method": "PUT"}')).document["url"]
        assert (await files.ask("PUT", url, b"<script>", client=True, content_type=kind)).status == 201
        url = (await files.ask("POST", "/v1/sign", b'{"key": "a"}')).document["url"]
        headers = (await files.ask("GET", url, client=True)).headers
        assert headers["x-content-type-options"] == "nosniff"
        if shown:
            assert not {"content-disposition", "content-security-policy"} & headers.keys()
        else:
            assert headers["content-disposition"] == "attachment"
            assert headers["content-security-policy"] == "default-src 'none'; sandbox"

    asyncio.run(test())


def test_quota_counts_each_file_once(files: Files) -> None:
    async def test() -> None:
        files.door.limit(Quota(files_mb=1))
        assert (await files.put("a", b"x" * 700_000)).status == 201
        assert (await files.put("a", b"y" * 900_000)).status == 201
        refused = await files.put("b", b"z" * 200_000)
        assert (refused.status, refused.code) == (507, "storage-quota") and "1 MiB" in refused.document[
            "detail"
        ]
        assert (await files.ask("POST", "/v1/copy", b'{"from": "a", "to": "b"}')).code == "storage-quota"
        assert (await files.ask("DELETE", "/v1/files/a")).status == 204
        assert (await files.put("b", b"z" * 200_000)).status == 201
        assert await files.door.store.usage() == (1, 200_000)

    asyncio.run(test())


def test_usage_counts_files_by_prefix(files: Files) -> None:
    async def test() -> None:
        usage = files.door.store.usage
        assert await usage() == await usage("a") == (0, 0)
        for key, size in (("a", 1), ("a/b", 10), ("a/%F4%8F%BF%BF", 100), ("a0", 1000), ("b", 10_000)):
            await files.put(key, b"x" * size)
        await files.put("b", b"y" * 20_000)
        await files.ask("POST", "/v1/copy", b'{"from": "a0", "to": "c"}')
        await files.ask("DELETE", "/v1/files/missing")
        await files.ask("DELETE", "/v1/files/a")
        assert await usage() == (5, 22_110)
        assert await usage("a/") == (2, 110) and await usage("a") == (3, 1110) and await usage("d") == (0, 0)

    asyncio.run(test())


def test_measure_opens_the_tables_once_for_all_doors(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    door = next(each for each in doors() if isinstance(each, TablesDoor))
    assert door.measure(files.folder) == {
        "tables": Stored(0, 0, 0), "files": Stored(0), "jobs": Stored(0),
    }  # fmt: skip
    asyncio.run(files.put("a", CONTENT))
    opened: list[Path] = []

    def opening(path: Path) -> Connection:
        opened.append(path)
        return open_owner(path)

    monkeypatch.setattr(owner, "open_owner", opening)
    stored = door.measure(files.folder)
    assert (stored["files"], stored["jobs"], len(opened)) == (Stored(1, len(CONTENT)), Stored(0), 1)


def test_index_without_a_count_is_counted_at_the_next_change(files: Files) -> None:
    async def test() -> None:
        await files.put("a", b"x" * 10)
        with open_for_writing(files.folder) as connection:
            for statement in (
                f"DROP TABLE {store.COUNT}",
                f"DROP TRIGGER {store.FILES}_added",
                f"DROP TRIGGER {store.FILES}_deleted",
            ):
                connection.execute(statement)
        assert await files.door.store.usage() == (1, 10)
        await files.put("b", b"y")
        assert await files.door.store.usage() == (2, 11)

    asyncio.run(test())


def test_metadata_has_limits_and_a_form(files: Files) -> None:
    async def test() -> None:
        assert (await files.put("a", b"x", x_svc_meta="[]")).code == "bad-request"
        assert (await files.put("a", b"x", x_svc_meta='{"a": 1}')).code == "bad-request"
        long = json.dumps({"a": "x" * store.MAX_METADATA_BYTES})
        assert (await files.put("a", b"x", x_svc_meta=long)).code == "too-large"
        assert (await files.put("a", b"x", content_type="x" * store.MAX_METADATA_BYTES)).code == "too-large"

    asyncio.run(test())


def test_other_paths_and_methods_are_named(files: Files) -> None:
    async def test() -> None:
        assert (await files.ask("GET", "/v1/other")).status == 404
        assert (await files.ask("POST", "/v1/files/a")).code == "method-not-allowed"
        assert (await files.ask("GET", "/v1/sign")).code == "method-not-allowed"

    asyncio.run(test())
