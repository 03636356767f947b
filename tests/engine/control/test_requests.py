"""Recorded and replayed requests over the control API of a project in development."""

import asyncio
import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from engine.timeline.recording import MAX_BODY_BYTES, REDACTED_VALUE
from tests.engine.control.developing import Shop, develop

STATIC = '[project]\nname = "shop"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'
JS = """
[project]
name = "shop"
redact_headers = ["X-Pin"]

[resource.web]
lane = "static"
public = true
output = "site"
mounts = { "/api/*" = "api" }

[resource.api]
lane = "js"
workdir = "api"
"""
HANDLER = """
let number = 0
export default {
  async fetch(request) {
    const text = await request.text()
    console.log(`got ${text.length}`)
    if (request.url.endsWith("/fail")) throw new Error("no")
    const parts = [request.method, new URL(request.url).search, request.headers.get("x-kind"),
      request.headers.get("cookie"), request.headers.get("x-pin"), text]
    const headers = {"set-cookie": "id=secret", "x-pin": "4711", "content-type": "text/plain"}
    return new Response(parts.join("|"), {status: 201, headers})
  }
}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop ü"
    (root / "site").mkdir(parents=True)
    (root / "api").mkdir()
    (root / "svc.toml").write_text(STATIC)
    (root / "site" / "index.html").write_text("one")
    (root / "site" / "large.bin").write_bytes(bytes(range(256)) * 1024)
    (root / "api" / "index.js").write_text(HANDLER)
    return root


async def recorded(shop: Shop, request_id: str) -> dict[str, Any]:
    """Return a recording once it is written."""
    while True:
        answer = await shop.control.get(f"/v1/projects/shop/requests/{request_id}")
        if answer.status_code == 200:
            return dict(answer.json())
        await asyncio.sleep(0.02)


async def replayed_as(status: int, shop: Shop, request_id: str) -> None:
    """Replay a request until the response matches."""
    while True:
        second = await shop.call("POST", f"/requests/{request_id}/replay")
        if second["response"]["status"] == status:
            return


def body(of: dict[str, Any]) -> bytes:
    return b64decode(of["body"])


def test_exchange_is_recorded_with_secrets_redacted(root: Path) -> None:
    async def test(shop: Shop) -> None:
        answer = await shop.public.get("/?a=1&b=%20", headers={"x-kind": "plain", "cookie": "id=secret"})
        exchange = await recorded(shop, answer.headers["x-request-id"])
        request, response = exchange["request"], exchange["response"]
        assert (request["method"], request["target"], request["scheme"]) == ("GET", "/?a=1&b=%20", "http")
        assert request["authority"] == f"localhost:{shop.port}"
        assert ["x-kind", "plain"] in request["headers"] and ["cookie", REDACTED_VALUE] in request["headers"]
        assert (request["body"], request["size"], request["truncated"]) == ("", 0, False)
        assert (response["status"], body(response), response["complete"]) == (200, b"one", True)
        assert ["content-type", "text/html; charset=utf-8"] in response["headers"]
        assert [record["kind"] for record in exchange["records"]] == ["request"]
        assert exchange["wall_ns"] == exchange["records"][0]["wall_ns"] and exchange["replay_of"] is None

    develop(root, test)


def test_large_body_is_recorded_up_to_limit(root: Path) -> None:
    async def test(shop: Shop) -> None:
        answer = await shop.public.get("/large.bin", headers={"accept-encoding": "identity"})
        response = (await recorded(shop, answer.headers["x-request-id"]))["response"]
        assert (response["size"], response["truncated"]) == (256 * 1024, True)
        assert body(response) == answer.content[:MAX_BODY_BYTES]

    develop(root, test)


def test_record_bodies_false_records_nothing(root: Path) -> None:
    (root / "svc.toml").write_text(STATIC.replace('"shop"', '"shop"\nrecord_bodies = false', 1))

    async def test(shop: Shop) -> None:
        stored = (await shop.public.get("/")).headers["x-request-id"]
        (root / "svc.toml").write_text(STATIC)
        while True:
            answer = await shop.public.get("/")
            await asyncio.sleep(0.3)
            own = answer.headers["x-request-id"]
            if (await shop.control.get(f"/v1/projects/shop/requests/{own}")).status_code == 200:
                break
        problem = await shop.call("GET", f"/requests/{stored}", 404)
        assert "is not recorded" in problem["title"] and "record_bodies" in problem["hint"]

    develop(root, test)


def test_request_with_unread_body_is_not_replayable(root: Path) -> None:
    async def test(shop: Shop) -> None:
        answer = await shop.public.post("/", content=b"unread")
        exchange = await recorded(shop, answer.headers["x-request-id"])
        assert (exchange["response"]["status"], exchange["request"]["truncated"]) == (405, True)
        problem = await shop.call("POST", f"/requests/{exchange['request_id']}/replay", 422)
        assert problem["code"] == "not-replayable" and "first 0 bytes" in problem["title"]

    develop(root, test)


def test_replay_of_unknown_request_is_not_found(root: Path) -> None:
    async def test(shop: Shop) -> None:
        assert (await shop.call("POST", "/requests/01nobody/replay", 404))["code"] == "not-found"

    develop(root, test)


@pytest.mark.slow
def test_replay_sends_request_to_current_build(root: Path, cache: Path) -> None:
    (root / "svc.toml").write_text(JS)

    async def test(shop: Shop) -> None:
        headers = {
            "x-kind": "first",
            "cookie": "id=secret",
            "x-pin": "4711",
            "traceparent": f"00-{7:032}-{7:016}-01",
        }
        answer = await shop.public.post("/api/a?b=c", content=b"four", headers=headers)
        assert (answer.status_code, answer.text) == (201, "POST|?b=c|first|id=secret|4711|four")
        first = await recorded(shop, answer.headers["x-request-id"])
        assert body(first["request"]) == b"four" and body(first["response"]) == answer.content
        assert ["set-cookie", REDACTED_VALUE] in first["response"]["headers"]
        assert ["x-pin", REDACTED_VALUE] in first["request"]["headers"]
        assert [record["kind"] for record in first["records"]] == ["stdout", "request", "request"]
        assert first["compute_ns"] > 0 and first["peak_memory"] > 0

        second = await shop.call("POST", f"/requests/{first['request_id']}/replay")
        assert second["replay_of"] == first["request_id"] != second["request_id"]
        sent = b"POST|?b=c|first|id=secret|4711|four"
        assert (second["response"]["status"], body(second["response"])) == (201, sent)
        assert second["omitted_headers"] == [] and ["cookie", REDACTED_VALUE] in second["request"]["headers"]
        first_sent = await shop.call("GET", f"/requests/{first['request_id']}/original")
        assert ["cookie", "id=secret"] in json.loads(first_sent["head"])["headers"]
        assert b64decode(first_sent["request"]) == b"four"
        assert (await shop.call("GET", "/requests/01nobody/original", 404))["code"] == "not-found"
        kinds = [record["kind"] for record in second["records"]]
        assert kinds == ["platform", "stdout", "request", "request"]
        assert second["wall_ns"] > second["compute_ns"] > 0 and second["peak_memory"] > 0
        assert second["records"][-1]["trace_id"] != first["records"][-1]["trace_id"]
        assert (await recorded(shop, second["request_id"]))["replay_of"] == first["request_id"]

        edited = {
            "method": "PUT",
            "target": "/api/a?d",
            "headers": [["x-kind", "edited"], ["cookie", REDACTED_VALUE], ["content-length", "9"]],
            "body": b64encode(b"five!").decode(),
        }
        path = f"/requests/{first['request_id']}/resend"
        third = await shop.call("POST", path, json=edited)
        assert body(third["response"]) == b"PUT|?d|edited|id=secret||five!"
        assert third["replay_of"] == first["request_id"] and third["omitted_headers"] == []
        for wrong in (
            {"method": "P T"},
            {"target": "//a b"},
            {"target": "http://a"},
            {"headers": [["x", "a\r\nb: c"]]},
            {"headers": [["X", "a"]]},
            {"headers": [["x"]]},
            {"body": "?"},
        ):
            assert (await shop.call("POST", path, 422, json=edited | wrong))["code"] == "invalid"

        (root / "api" / "index.js").write_text(HANDLER.replace("four", "").replace("201", "202"))
        await replayed_as(202, shop, first["request_id"])

        large = await shop.public.post("/api/a", content=b"x" * (MAX_BODY_BYTES + 1))
        await recorded(shop, large.headers["x-request-id"])
        problem = await shop.call("POST", f"/requests/{large.headers['x-request-id']}/replay", 422)
        assert problem["code"] == "not-replayable" and "first 65536 bytes" in problem["title"]

        failed = await shop.public.post("/api/fail", content=b"four")
        exchange = await recorded(shop, failed.headers["x-request-id"])
        assert (exchange["response"]["status"], exchange["code"]) == (500, "guest-failed")
        second = await shop.call("POST", f"/requests/{exchange['request_id']}/replay")
        assert (second["response"]["status"], second["code"]) == (500, "guest-failed")

    develop(root, test, cache)
