"""Signed URLs: what they permit, and what is refused."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

from doors.files import door
from doors.files.door import FilesDoor
from doors.tables.project_database import ProjectDatabase
from engine.bucket.blobs import FolderBlobs
from engine.deploy.serving import Tenants
from engine.door import DoorStorage
from tests.doors.files.files_door import Files, broken


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def signed(files: Files, **members: Any) -> str:
    answer = await files.ask("POST", "/v1/sign", json.dumps({"key": "a b/ü", **members}).encode())
    assert answer.status == 200, answer.body
    return str(answer.document["url"])


def test_signed_put_and_get_are_for_one_key_and_method(files: Files) -> None:
    async def test() -> None:
        put = await signed(files, method="PUT", max_bytes=5, type="text/html")
        headers = {"content_type": "text/html", "client": True}
        assert (await files.ask("PUT", put, b"hello", **headers)).status == 201
        large = await files.ask("PUT", put, b"hello!", **headers)
        assert (large.code, large.document["hint"]) == ("too-large", "The signed URL permits no more.")
        assert (await files.ask("PUT", put, b"x", client=True)).code == "bad-signature"
        assert (await files.ask("PUT", put, broken(b"x"), **headers)).code == "incomplete"
        for method in ("GET", "HEAD", "DELETE", "POST"):
            assert (await files.ask(method, put, client=True)).status == 403
        get = await signed(files)
        answer = await files.ask("GET", get, client=True, range="bytes=1-2")
        assert (answer.status, answer.body) == (206, b"el")
        assert answer.headers["content-disposition"] == "attachment" and "x-svc-meta" not in answer.headers
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await files.ask("HEAD", get, client=True)).status == 200
        assert (await files.ask("PUT", get, b"x", client=True)).status == 403
        assert (await files.ask("GET", get)).status == 404, "guests do not use signed URLs"

    asyncio.run(test())


def test_url_of_a_removed_project_is_refused_by_the_next_one_of_its_name(tmp_path: Path) -> None:
    async def test() -> None:
        storage = DoorStorage(FolderBlobs(tmp_path), b"secret")
        tenants = Tenants(
            [FilesDoor(ProjectDatabase)], lambda name: tmp_path / name, lambda *_: None, storage
        )
        files, opened = Files(tmp_path), []
        for removal in ("", "first", "first"):
            tenants.reopen("shop", removal)
            files.door = tenants.doors("shop").open["files"].door  # type: ignore[assignment]
            opened.append(await signed(files, method="PUT"))
            valid = [(await files.ask("PUT", url, b"x", client=True)).status != 403 for url in opened]
            assert valid == [each == removal for each in ("", "first", "first")[: len(opened)]]
            await tenants.remove("shop")

    asyncio.run(test())


def test_every_altered_part_is_refused(files: Files) -> None:
    async def test() -> None:
        url = await signed(files, method="PUT", once=True, type="a/b")
        path, _, query = url.partition("?")
        members = dict(parse_qsl(query, keep_blank_values=True))
        assert members.keys() == {"method", "expires", "max", "type", "once", "signature"}
        for name, value in members.items():
            for other in (value + "0", value[:-1], "", value + "\n", "9" * 15):
                altered = urlencode({**members, name: other})
                answer = await files.ask("PUT", f"{path}?{altered}", b"x", client=True, content_type="a/b")
                assert (answer.status, answer.code) == (403, "bad-signature"), (name, other)
            without = urlencode({other: members[other] for other in members if other != name})
            assert (await files.ask("PUT", f"{path}?{without}", b"x", client=True)).status == 403
        assert (await files.ask("PUT", f"{path}x?{query}", b"x", client=True)).status == 403
        assert (await files.ask("PUT", f"{url}&more=1", b"x", client=True)).status == 403
        assert await files.content("a%20b/%C3%BC") is None
        assert (await files.ask("PUT", url, b"x", client=True, content_type="a/b")).status == 201
        again = await files.ask("PUT", url, b"y", client=True, content_type="a/b")
        assert (again.status, again.code) == (412, "precondition")
        assert await files.content("a%20b/%C3%BC") == b"x"

    asyncio.run(test())


def test_url_of_another_time_project_or_service_is_refused(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        url = await signed(files, expires_s=60)
        permission = door.Permission(key="a", method="GET", expires=2**33)
        for secret, project in ((b"secret", "other"), (b"other", "shop")):
            foreign = door.sign(door.project_key(secret, project), permission)
            assert (await files.ask("GET", foreign, client=True)).code == "bad-signature"
        own = door.sign(door.project_key(b"secret", "shop"), permission)
        assert (await files.ask("GET", own, client=True)).code == "not-found"
        now = door.time.time()
        monkeypatch.setattr(door.time, "time", lambda: now + 61)
        expired = await files.ask("GET", url, client=True)
        assert expired.code == "bad-signature" and "expired" in expired.document["detail"]

    asyncio.run(test())


@pytest.mark.parametrize(
    "members",
    [
        {"method": "DELETE"},
        {"expires_s": 0},
        {"expires_s": 10**6},
        {"expires_s": "1"},
        {"max_bytes": 6 << 30},
        {"key": "a/../b"},
        {"key": 1},
        {"once": 1},
        {"other": 1},
        {"type": None},
    ],
)
def test_wrong_members_are_named(files: Files, members: dict[str, Any]) -> None:
    async def test() -> None:
        answer = await files.ask("POST", "/v1/sign", json.dumps({"key": "a", **members}).encode())
        assert answer.status == 400 and answer.code in ("bad-request", "bad-key")

    asyncio.run(test())


def test_clients_have_no_way_to_the_requests_of_guests(files: Files) -> None:
    async def test() -> None:
        await files.put("a", b"x")
        for method in ("PUT", "DELETE"):
            assert (await files.ask(method, "/v1/files/a", b"y", client=True)).code == "method-not-allowed"
        assert await files.content("a") == b"x"

    asyncio.run(test())


def test_secret_is_not_shown() -> None:
    assert "secret" not in repr(DoorStorage(blobs=None, secret=b"secret")).replace("secret=", "")  # type: ignore[arg-type]
