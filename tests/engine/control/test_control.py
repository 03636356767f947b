"""The control API over its real listener and the real client."""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from quart import Blueprint, Response, request

from engine.control import local_server
from engine.control.access import ALL_PROJECTS, Forbidden, Principal, StaticToken
from engine.control.access_watch import MAX_REQUESTS, AccessWatch
from engine.control.app import principal
from engine.control.discovery import (
    ENDPOINT_FILE,
    ControlEndpoint,
    find_endpoint,
    publish_endpoint,
    remove_endpoint,
)
from engine.control.local_server import serve_local
from engine.control.projects import SingleProject, blueprint
from engine.errors import SvcError
from svc_tui import version
from svc_tui.background_loop import run_in_background
from svc_tui.client import ApiError, Client, Unreachable
from tests.support.waiting import until


def subject() -> Blueprint:
    routes = Blueprint("subject", __name__)

    @routes.get("/v1/me")
    async def me() -> dict[str, str]:
        return {"name": principal().name}

    @routes.get("/v1/conflict")
    async def conflict() -> None:
        raise SvcError("the manifest has changed", "Look again.", code="conflict")

    @routes.get("/v1/fault")
    async def fault() -> None:
        raise ValueError("/etc/secret")

    @routes.post("/v1/count")
    async def count() -> Response:
        body = request.body

        async def lines() -> AsyncIterator[bytes]:
            size = 0
            async for data in body:
                size += len(data)
            yield json.dumps({"size": size}).encode() + b"\n"
            yield b'{"done": true}\n'

        return Response(lines(), content_type="application/x-ndjson")

    return routes


@contextmanager
def served(folder: Path, *, announce: bool = True) -> Iterator[ControlEndpoint]:
    routes = (subject(), blueprint(SingleProject("shop", folder)))
    with run_in_background(lambda _: serve_local(folder, routes, announce=announce), "control") as presence:
        yield presence


@pytest.fixture
def presence(tmp_path: Path) -> Iterator[ControlEndpoint]:
    with served(tmp_path) as presence:
        yield presence


@pytest.fixture
def client(presence: ControlEndpoint) -> Iterator[Client]:
    with Client(presence.url, presence.token) as client:
        yield client


def test_local_token_grants_all_projects(client: Client) -> None:
    assert client.call("GET", "/v1/me") == {"name": "developer"}
    assert client.call("GET", "/v1/projects") == {"projects": ["shop"]}


@pytest.mark.parametrize("token", ["", "wrong", "x y", "~" * 5000])
def test_invalid_token_is_unauthenticated(presence: ControlEndpoint, token: str) -> None:
    with Client(presence.url, token) as client, pytest.raises(ApiError) as exc_info:
        client.call("GET", "/v1/me")
    assert exc_info.value.code == "unauthenticated" and "svc login" in exc_info.value.hint


def test_health_without_session_reports_version(presence: ControlEndpoint) -> None:
    with Client(presence.url, "") as client:
        health = client.call("GET", "/v1/health")
        assert health == {"status": "ok", "api": "1", "version": version(), "fleet": False}


def test_error_preserves_message_hint_and_code(client: Client) -> None:
    with pytest.raises(ApiError) as exc_info:
        client.call("GET", "/v1/conflict")
    assert (exc_info.value.message, exc_info.value.hint) == ("the manifest has changed", "Look again.")
    assert exc_info.value.code == "conflict" and exc_info.value.members["status"] == 409


def test_unexpected_error_reveals_no_details(client: Client) -> None:
    with pytest.raises(ApiError) as exc_info:
        client.call("GET", "/v1/fault")
    assert exc_info.value.code == "internal" and "secret" not in str(exc_info.value.members)


@pytest.mark.parametrize(
    ("path", "code"), [("/v1/nothing", "not-found"), ("/v1/count", "method-not-allowed")]
)
def test_unknown_route_returns_problem(client: Client, path: str, code: str) -> None:
    with pytest.raises(ApiError) as exc_info:
        client.call("GET", path)
    assert exc_info.value.code == code


def test_request_and_response_are_streamed(client: Client) -> None:
    data = (b"x" * 100_000 for _ in range(20))
    assert list(client.lines("POST", "/v1/count", content=data)) == [{"size": 2_000_000}, {"done": True}]


def test_openapi_document_lists_routes(client: Client) -> None:
    document = client.call("GET", "/openapi.json")
    assert document["openapi"].startswith("3.") and {"/v1/health", "/v1/projects"} <= document["paths"].keys()


def test_unused_address_raises_unreachable(presence: ControlEndpoint) -> None:
    with Client("http://127.0.0.1:1", "") as client, pytest.raises(Unreachable) as exc_info:
        client.call("GET", "/v1/health")
    assert "127.0.0.1:1" in exc_info.value.message


def test_endpoint_is_found_while_served(tmp_path: Path) -> None:
    with served(tmp_path) as presence:
        assert find_endpoint(tmp_path) == presence
        assert (tmp_path / ENDPOINT_FILE).stat().st_mode & 0o077 == 0
    assert find_endpoint(tmp_path) is None


def test_newest_endpoint_is_found_and_removes_only_itself(tmp_path: Path) -> None:
    old, new = ControlEndpoint("http://127.0.0.1:1", "a", 1), ControlEndpoint("http://127.0.0.1:2", "b", 2)
    publish_endpoint(tmp_path, old)
    publish_endpoint(tmp_path, new)
    remove_endpoint(tmp_path, old)
    assert find_endpoint(tmp_path) == new
    remove_endpoint(tmp_path, new)
    assert find_endpoint(tmp_path) is None


def test_endpoint_is_published_again_after_another_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_server, "REPUBLISH_SECONDS", 0.01)
    killed = subprocess.Popen(["true"])
    killed.wait()
    with served(tmp_path) as first:
        with served(tmp_path) as second:
            time.sleep(0.1)
            assert find_endpoint(tmp_path) == second
        until(lambda: find_endpoint(tmp_path) == first)
        publish_endpoint(tmp_path, ControlEndpoint("http://127.0.0.1:1", "a", killed.pid))
        until(lambda: find_endpoint(tmp_path) == first)
    assert find_endpoint(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}', "\udcff"])
def test_invalid_endpoint_file_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / ENDPOINT_FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert find_endpoint(tmp_path) is None


def test_stronger_of_project_and_global_role_applies() -> None:
    principal = Principal("ann", {ALL_PROJECTS: "viewer", "shop": "deployer"})
    principal.require("shop", "deployer")
    principal.require("blog", "viewer")
    with pytest.raises(
        Forbidden, match="ann is only viewer of the project blog; this requires the role deployer"
    ):
        principal.require("blog", "deployer")
    with pytest.raises(Forbidden, match="has no role in") as of_user:
        Principal("bob", {}).require("shop", "viewer")
    assert of_user.value.hint == "Ask an owner of shop to run: svc user role bob viewer --project shop"
    with pytest.raises(Forbidden, match="bob/ci is only viewer of the project shop") as of_token:
        Principal("bob/ci", {"shop": "viewer"}).require("shop", "deployer")
    assert of_token.value.hint == "Use another token: svc token create NAME --role deployer --project shop"


def test_requests_of_one_user_above_limit_are_refused() -> None:
    async def main() -> None:
        watch = AccessWatch(StaticToken("x"), lambda error: SvcError(str(error)))
        requests = [watch.add("x", "ann", lambda error: None) for _ in range(MAX_REQUESTS)]
        with pytest.raises(SvcError, match="128 requests of ann are in progress") as exc_info:
            watch.add("y", "ann", lambda error: None)
        assert exc_info.value.code == "unavailable"
        assert Principal("ann/ci", {}).user == "ann"  # Tokens count together.
        watch.add("y", "bob", lambda error: None).unwatch()
        requests[0].unwatch()
        requests[0].unwatch()
        requests[0] = watch.add("x", "ann", lambda error: None)
        with pytest.raises(SvcError):
            watch.add("x", "ann", lambda error: None)
        for each in requests:
            each.unwatch()

    asyncio.run(main())


def test_token_whose_rights_cannot_be_read_delays_no_other() -> None:
    class Half(StaticToken):
        async def principal(self, token: str) -> Principal | None:
            if token == "unreadable":
                await asyncio.Event().wait()
            return None

    async def main() -> None:
        watch = AccessWatch(Half("x"), lambda error: SvcError(str(error)))
        lost = asyncio.Event()
        waiting = [watch.add("unreadable", "ann", lambda error: None)]
        for number in range(8):
            waiting.append(watch.add(f"revoked {number}", "bob", lambda error: lost.set()))
            async with asyncio.timeout(60):
                await lost.wait()
            lost.clear()
        for each in waiting:
            each.unwatch()

    asyncio.run(main())
