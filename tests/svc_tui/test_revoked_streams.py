"""Streams of the control API end within a second of losing the rights that they began with."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from engine.control.routes.operation import MEDIA_TYPE
from svc_tui.client import ApiError, Client
from svc_tui.deploy.format import DeployProgress
from tests.support.waiting import until
from tests.svc_tui.hosted import PASSWORD, Hosted, RecordingReporter, deploy, static_shop

SHOP = "/v1/projects/shop"
FILE = f"{SHOP}/files/content"
END_SECONDS = 1.0
LONG_MIGRATION = (
    "create table counted as with recursive c(x) as (select 1 union all select x + 1 from c limit 20000000)"
    " select count(*) as n from c;"
)
ROWS, ROW_BYTES = 30_000, 1000
WHOLE = frozenset({"application/json", MEDIA_TYPE})
"""Types of content that is sent at once."""


REVOCATIONS = {
    "revoked token": ("/v1/tokens/ci", 401, "unauthenticated"),
    "removed user": ("/v1/users/tom", 401, "unauthenticated"),
    "removed role": ("/v1/users/tom/roles/shop", 403, "forbidden"),
}
"""Ways to revoke rights: the path to delete, and the status and code of the error."""


class Revocable:
    """Rights that a stream uses: a token of the service's owner, or the session of a user."""

    def __init__(self, url: str, owner: Client, kind: str) -> None:
        self._path, self.status, self.code = REVOCATIONS[kind]
        if kind == "revoked token":
            body = {"name": "ci", "role": "owner", "projects": ["*"], "days": 1}
            self.token = str(owner.call("POST", "/v1/tokens", body)["token"])
        else:
            owner.call("PUT", "/v1/users/tom", {"password": PASSWORD, "roles": {"shop": "owner"}})
            self.token = str(owner.call("POST", "/v1/login", {"user": "tom", "password": PASSWORD})["token"])
        self.client = Client(url, self.token)
        self._owner = owner
        self._kind = kind
        self._revoked_at = 0.0

    def revoke(self) -> None:
        self._owner.call("DELETE", self._path)
        self._revoked_at = time.monotonic()

    def close(self) -> None:
        self.client.close()
        if self._kind == "removed role":
            self._owner.call("DELETE", "/v1/users/tom")

    def assert_ended_in_time(self) -> None:
        assert self._revoked_at
        assert time.monotonic() - self._revoked_at < END_SECONDS


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    folder = tmp_path_factory.mktemp("service")
    with Hosted(folder / "data") as hosted, hosted.claim() as client:
        deploy(client, static_shop(folder / "shop"))
        sql = (
            f"insert into pages with recursive c(x) as (select 1 union all select x + 1 from c limit {ROWS})"
            f" select x, hex(zeroblob({ROW_BYTES // 2})) from c"
        )
        client.call(
            "POST",
            f"{SHOP}/sql",
            {"sql": "create table pages (id integer primary key, text text)", "write": True},
        )
        client.call("POST", f"{SHOP}/sql", {"sql": sql, "write": True})
        headers = {"authorization": f"Bearer {hosted.token}"}
        large = bytes(ROWS * ROW_BYTES)
        httpx.put(
            f"{hosted.control}{FILE}?key=large", content=large, headers=headers, timeout=60
        ).raise_for_status()
        hosted.get()
        until(lambda: bool(list(client.lines("GET", f"{SHOP}/logs"))))
        yield hosted


@pytest.fixture
def revocable(hosted: Hosted, request: pytest.FixtureRequest) -> Iterator[Revocable]:
    with Client(hosted.control, hosted.token) as owner:
        rights = Revocable(hosted.control, owner, request.param)
        yield rights
        rights.close()


def follow(path: str) -> Callable[[Revocable], None]:
    def run(revocable: Revocable) -> None:
        lines = revocable.client.lines("GET", path, params={"follow": "true"})
        next(lines)
        revocable.revoke()
        with pytest.raises(ApiError) as exc_info:
            list(lines)
        assert exc_info.value.code == revocable.code

    return run


def long_deploy(revocable: Revocable) -> None:
    class Revoking(RecordingReporter):
        def __call__(self, event: DeployProgress) -> None:
            if "migrations" in event.text:
                revocable.revoke()

    with TemporaryDirectory() as folder:
        root = static_shop(Path(folder) / "shop")
        (root / "tables").mkdir()
        (root / "tables" / "001.sql").write_text(LONG_MIGRATION)
        with pytest.raises(ApiError) as exc_info:
            deploy(revocable.client, root, Revoking())
        assert exc_info.value.code == revocable.code


def export_grid(revocable: Revocable) -> None:
    grid = revocable.client.call("POST", f"{SHOP}/grid", {"table": "pages"})["grid"]
    export(f"{SHOP}/grid/{grid}/export")(revocable)


def export(path: str) -> Callable[[Revocable], None]:
    return download(path, {"format": "csv"} | ({} if "/grid/" in path else {"table": "pages"}))


def download(path: str, params: dict[str, str]) -> Callable[[Revocable], None]:
    def run(revocable: Revocable) -> None:
        with revocable.client.download(path, params=params) as chunks:
            received = len(next(chunks))
            revocable.revoke()
            time.sleep(END_SECONDS / 2)  # The rest must not wait for a client that does not read.
            with pytest.raises(Exception, match="lost the connection"):
                for chunk in chunks:
                    received += len(chunk)
        assert received < ROWS * ROW_BYTES

    return run


def upload(method: str, path: str) -> Callable[[Revocable], None]:
    def run(revocable: Revocable) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"id,text\n"
            revocable.revoke()
            while time.monotonic() < revocable._revoked_at + END_SECONDS * 0.7:
                time.sleep(0.05)
                yield b"1,x\n"

        headers = {"authorization": f"Bearer {revocable.token}"}
        response = httpx.request(
            method, f"{revocable.client.url}{path}", content=pieces(), headers=headers, timeout=60
        )
        assert (response.status_code, response.json()["code"]) == (revocable.status, revocable.code)

    return run


IMPORT = "?format=csv&table=pages"
STREAMS: dict[tuple[str, str], Callable[[Revocable], None]] = {
    ("get", "/v1/projects/{project}/logs"): follow(f"{SHOP}/logs"),
    ("get", "/v1/projects/{project}/logs/cursors"): follow(f"{SHOP}/logs/cursors"),
    ("post", "/v1/projects/{project}/deployments"): long_deploy,
    ("put", "/v1/projects/{project}/blobs/{digest}"): upload(
        "PUT", f"{SHOP}/blobs/{sha256(b'none').hexdigest()}?size=1000&offset=0"
    ),
    ("post", "/v1/projects/{project}/import"): upload("POST", f"{SHOP}/import{IMPORT}"),
    ("post", "/v1/projects/{project}/import/preview"): upload("POST", f"{SHOP}/import/preview?format=csv"),
    ("get", "/v1/projects/{project}/export"): export(f"{SHOP}/export"),
    ("get", "/v1/projects/{project}/grid/{grid}/export"): export_grid,
    ("put", "/v1/projects/{project}/files/content"): upload("PUT", f"{FILE}?key=new"),
    ("get", "/v1/projects/{project}/files/content"): download(FILE, {"key": "large"}),
}
"""A use of every route that streams a request or a response."""


USES = ("/logs", "/logs/cursors", "/export", "/deployments", "/import")
"""Ends of the routes that are tested with every revocation: one for each way to end a stream."""


@pytest.mark.alone
@pytest.mark.parametrize(
    ("route", "revocable"),
    [
        (route, kind)
        for route in STREAMS
        for kind in REVOCATIONS
        if kind == "revoked token" or (route[1].endswith(USES) and "{grid}" not in route[1])
    ],
    indirect=["revocable"],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_stream_ends_when_its_rights_are_revoked(route: tuple[str, str], revocable: Revocable) -> None:
    STREAMS[route](revocable)
    revocable.assert_ended_in_time()


def test_every_streaming_route_is_tested(hosted: Hosted) -> None:
    document = httpx.get(f"{hosted.control}/openapi.json", timeout=60).json()
    streaming = {
        (method, path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if _streams(operation)
    }
    assert streaming == STREAMS.keys()


def _streams(operation: dict[str, Any]) -> bool:
    contents = (operation.get("requestBody", {}), operation["responses"].get("200", {}))
    return any(kind not in WHOLE for content in contents for kind in content.get("content", {}))


@pytest.mark.alone
@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("DELETE", "/v1/users/bob", None, "unauthenticated"),
        ("DELETE", "/v1/users/bob/roles/shop", None, "forbidden"),
        ("PUT", "/v1/users/bob", {"password": "a new long password", "roles": {}}, "unauthenticated"),
    ],
    ids=["removed user", "removed role", "new password"],
)
def test_stream_ends_when_its_user_changes(
    method: str, path: str, body: Any, code: str, hosted: Hosted
) -> None:
    with Client(hosted.control, hosted.token) as owner:
        owner.call("PUT", "/v1/users/bob", {"password": PASSWORD, "roles": {"shop": "deployer"}})
        token = owner.call("POST", "/v1/login", {"user": "bob", "password": PASSWORD})["token"]
        with Client(hosted.control, token) as bob:
            lines = bob.lines("GET", f"{SHOP}/logs", params={"follow": "true"})
            next(lines)
            owner.call("PUT", "/v1/users/bob/roles/shop", {"role": "viewer"})  # This suffices for logs.
            time.sleep(END_SECONDS)
            next(lines)
            owner.call(method, path, body)
            changed_at = time.monotonic()
            with pytest.raises(ApiError) as exc_info:
                list(lines)
            assert exc_info.value.code == code
            assert time.monotonic() - changed_at < END_SECONDS
        if method == "PUT" or path.endswith("shop"):
            owner.call("DELETE", "/v1/users/bob")


@pytest.mark.alone
@pytest.mark.parametrize("path", ["sql", "logs/sql"])
@pytest.mark.parametrize("revocable", REVOCATIONS, indirect=True)
def test_sql_ends_when_its_rights_are_revoked(path: str, revocable: Revocable, hosted: Hosted) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with ThreadPoolExecutor() as threads:
        call = threads.submit(revocable.client.call, "POST", f"{SHOP}/{path}", {"sql": endless})
        with pytest.raises(TimeoutError):
            call.result(0.3)
        revocable.revoke()
        with pytest.raises(ApiError) as exc_info:
            call.result()
    assert exc_info.value.code == revocable.code
    revocable.assert_ended_in_time()


def test_session_that_ends_itself_gets_a_response(hosted: Hosted) -> None:
    with Client(hosted.control, "") as anyone:
        token = anyone.call("POST", "/v1/login", {"user": "ann", "password": PASSWORD})["token"]
    with Client(hosted.control, token) as client:
        assert client.call("POST", "/v1/logout")["revoked"] == 1
