"""Requests that a page of another site, a rebound name or a replay sends to `svc dev` and to a service."""

from pathlib import Path

import httpx
import pytest

from tests.engine.control.developing import Shop, develop
from tests.svc_tui.hosted import PASSWORD, Hosted, deploy, static_shop

FOREIGN = {"origin": "https://evil.example", "sec-fetch-site": "cross-site", "content-type": "text/plain"}
REBOUND = [
    "evil.example",
    "localhost.evil.example",
    "web--shop.localhost.evil.example",
    "127.0.0.1.evil.example",
    "web--shop.localhost@evil.example",
    "evil.example:80",
    "",
]


def with_cors(answer: httpx.Response) -> list[str]:
    return [name for name in answer.headers if name.startswith("access-control-")]


def test_foreign_pages_and_rebound_names_reach_nothing_in_dev(tmp_path: Path) -> None:
    async def test(shop: Shop) -> None:
        token = shop.control.headers["authorization"].removeprefix("Bearer ")
        async with httpx.AsyncClient(timeout=60) as page:
            site = f"http://127.0.0.1:{shop.port}/"
            known = await page.get(site, headers={"host": "web--shop.localhost"})
            assert known.text == "one"
            refused = [await page.get(site, headers={**FOREIGN, "host": host}) for host in REBOUND]
            assert {answer.status_code for answer in refused} <= {400, 404}
            assert not [answer for answer in refused if "one" in answer.text or with_cors(answer)]
            document = (await shop.control.get("/openapi.json")).json()
            url = str(shop.control.base_url).rstrip("/")
            places: list[dict[str, str]] = [
                {"host": "evil.example"},
                {"cookie": f"token={token}; session={token}; authorization=Bearer {token}"},
            ]
            for path, operations in document["paths"].items():
                if any(operation.get("security") == [] for operation in operations.values()):
                    continue
                for method in {*operations, "options"}:
                    for fields in places:
                        answer = await page.request(
                            method.upper(),
                            f"{url}{path}".format_map(Named()),
                            params={"token": token, "access_token": token},
                            headers={**FOREIGN, **fields},
                            content=b"{}",
                        )
                        assert answer.status_code in (401, 405), (method, path, answer.text)
                        assert not with_cors(answer)

    develop(static_shop(tmp_path / "shop"), test)


class Named(dict[str, str]):
    """Path parameters: the project's name, and the letter a."""

    def __missing__(self, name: str) -> str:
        return "shop" if name == "project" else "a"


@pytest.fixture
def hosted(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, static_shop(tmp_path / "shop"))
        yield hosted


def test_login_ignores_a_session_that_the_client_brings(hosted: Hosted) -> None:
    planted = "svc_" + "a" * 43
    for old in (planted, hosted.token):
        fields = {"authorization": f"Bearer {old}", "cookie": f"session={old}; token={old}"}
        body = {"user": "ann", "password": PASSWORD, "token": old, "session": old}
        answers = [
            httpx.post(
                f"{hosted.control}/v1/login", json=content, headers=fields, params={"token": old}, timeout=60
            )
            for content in (body, {"user": "ann", "password": PASSWORD})
        ]
        tokens = [answer.json().get("token") for answer in answers]
        assert tokens[-1] and old not in tokens
    assert (
        httpx.get(
            f"{hosted.control}/v1/whoami", headers={"authorization": f"Bearer {planted}"}, timeout=60
        ).status_code
        == 401
    )


def test_recorded_request_cannot_be_read_or_replayed_on_a_service(hosted: Hosted) -> None:
    recorded = hosted.get().headers["x-request-id"]
    session = {"authorization": f"Bearer {hosted.token}"}
    for method, path in (("GET", ""), ("POST", "/replay")):
        url = f"{hosted.control}/v1/projects/shop/requests/{recorded}{path}"
        assert httpx.request(method, url, headers=session, timeout=60).status_code == 404
    ended = {"authorization": f"Bearer {hosted.token}"}
    assert httpx.post(f"{hosted.control}/v1/logout", headers=ended, timeout=60).status_code < 300
    assert httpx.get(f"{hosted.control}/v1/whoami", headers=ended, timeout=60).status_code == 401, (
        "a replayed session"
    )
