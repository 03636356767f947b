"""`sample-apps/members`: accounts, sessions and a protected page in three languages, over the same tables."""

import asyncio
import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tests.support.browser import Page, chromium
from tests.support.dev_server import DevServer, dev_server
from tests.support.samples import copied_sample
from tests.support.service import prepare

pytestmark = pytest.mark.slow
LANES = ("js", "go", "rust")
SECRET = "correct horse ü"
MAX_ATTEMPTS = 10


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, rust_toolchain: None) -> Path:
    project = copied_sample("members", tmp_path_factory.mktemp("members"))
    process = subprocess.run(["cargo", "fetch"], cwd=project / "rust", capture_output=True, text=True)
    if process.returncode:
        pytest.skip(f"cargo cannot fetch sha2 and getrandom: {process.stderr[-300:]}")
    return project


@pytest.fixture(scope="module")
def members(project: Path, home: Path) -> Iterator[DevServer]:
    """A server for all tests."""
    with dev_server(project, home) as server:
        yield server


def post(server: DevServer, path: str, document: Any = None, **headers: str) -> httpx.Response:
    return httpx.post(server.url + path, json=document, headers=headers, timeout=60)


def enter(server: DevServer, lane: str, action: str, name: str, password: str = SECRET) -> httpx.Response:
    return post(server, f"/{lane}/{action}", {"name": name, "password": password})


def token(answer: httpx.Response) -> str:
    """Return the session token of a response that sets the cookie."""
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} < set(attributes)
    name, _, value = cookie.partition("=")
    assert name == "__Host-session"
    return str(value)


def home_page(server: DevServer, lane: str, session: str) -> httpx.Response:
    return server.get(f"/{lane}/home", headers={"cookie": f"a=b; __Host-session={session}"})


@pytest.mark.parametrize("lane", LANES)
def test_sign_up_starts_a_session_for_every_language(members: DevServer, lane: str) -> None:
    name = f"<i>Ada</i> & {lane}"
    answer = enter(members, lane, "sign-up", f"  {name} ")
    assert (answer.status_code, answer.json()) == (201, {"name": name})
    session = token(answer)
    assert len(session) == 64
    for other in LANES:
        page = home_page(members, other, session)
        assert page.status_code == 200 and "<i>" not in page.text and "Ada" in page.text
        assert page.headers["cache-control"] == "no-store" and page.headers["content-security-policy"]


@pytest.mark.parametrize(("writer", "reader"), [*permutations(LANES, 2)])
def test_password_hashed_by_one_language_is_verified_by_another(
    members: DevServer, writer: str, reader: str
) -> None:
    name = f"{writer} to {reader}"
    assert enter(members, writer, "sign-up", name).status_code == 201
    answer = enter(members, reader, "log-in", name.upper())
    assert (answer.status_code, answer.json()) == (200, {"name": name})
    assert home_page(members, writer, token(answer)).status_code == 200


@pytest.mark.parametrize("lane", LANES)
def test_log_out_ends_the_session_in_every_language(members: DevServer, lane: str) -> None:
    session = token(enter(members, lane, "sign-up", f"leaving {lane}"))
    other = token(enter(members, lane, "log-in", f"leaving {lane}"))
    answer = post(members, f"/{lane}/log-out", cookie=f"__Host-session={session}")
    assert (answer.status_code, answer.headers["location"], token(answer)) == (303, "/", "")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    for each in LANES:
        redirect = home_page(members, each, session)
        assert (redirect.status_code, redirect.headers["location"]) == (303, "/")
    assert home_page(members, lane, other).status_code == 200


@pytest.mark.parametrize("lane", LANES)
def test_page_without_a_valid_session_redirects(members: DevServer, lane: str) -> None:
    for session in ("", "0" * 64, "x", "' or 1 = 1 --"):
        answer = home_page(members, lane, session)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert members.get(f"/{lane}/home").status_code == 303
    assert members.get(f"/{lane}/nothing").status_code == 404


@pytest.mark.parametrize("lane", LANES)
def test_unknown_name_and_wrong_password_get_the_same_response(
    members: DevServer, project: Path, home: Path, lane: str
) -> None:
    assert enter(members, lane, "sign-up", f"known {lane}").status_code == 201
    answers = set()
    for name in (f"known {lane}", f"unknown {lane}"):
        answer = enter(members, lane, "log-in", name, "wrong password")
        headers = {key for key in answer.headers if key not in ("date", "x-request-id")}
        answers.add((answer.status_code, answer.text.strip(), *sorted(headers)))
    assert len(answers) == 1 and next(iter(answers))[0] == 401
    options = ["--json", "--tail", "2", "--resource", lane, "--grep", "log-in"]
    lines = prepare(project, os.environ | {"SVC_HOME": str(home)}, "logs", *options).splitlines()
    known, unknown = (json.loads(line)["compute_ns"] for line in lines)
    assert unknown > known / 3


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("exists", [True, False])
def test_attempts_over_the_limit_are_refused(members: DevServer, lane: str, exists: bool) -> None:
    name = f"guessed {lane} {exists}"
    if exists:
        assert enter(members, lane, "sign-up", name).status_code == 201
    statuses = [
        enter(members, lane, "log-in", name, "wrong password").status_code for _ in range(MAX_ATTEMPTS)
    ]
    assert statuses == [401] * MAX_ATTEMPTS
    for other in LANES:
        answer = enter(members, other, "log-in", name)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "900")


@pytest.mark.parametrize("lane", LANES)
def test_request_of_another_origin_is_refused(members: DevServer, lane: str) -> None:
    sent = {"name": f"forged {lane}", "password": SECRET}
    for origin in ("https://evil.example", "null", f"{members.url}.evil.example"):
        assert post(members, f"/{lane}/sign-up", sent, origin=origin).status_code == 403
    assert post(members, f"/{lane}/sign-up", sent, origin=members.url).status_code == 201


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("", 400),
        ("{", 400),
        ("[1]", 400),
        ('{"name": "ada"}', 400),
        ('{"name": 1, "password": "correct horse"}', 400),
        ('{"name": "eve", "password": "short"}', 400),
        (json.dumps({"name": "eve", "password": "x" * 201}), 400),
        ('{"name": " e ", "password": "correct horse"}', 400),
        (json.dumps({"name": "e" * 31, "password": SECRET}), 400),
    ],
)
def test_unusable_credentials_are_a_client_error(
    members: DevServer, lane: str, content: str, status: int
) -> None:
    answer = httpx.post(f"{members.url}/{lane}/sign-up", content=content.encode(), timeout=60)
    assert (answer.status_code, "set-cookie" in answer.headers) == (status, False), answer.text
    assert answer.json()["title"]


def test_taken_name_is_a_conflict(members: DevServer) -> None:
    assert enter(members, "js", "sign-up", "Grace").status_code == 201
    for lane in LANES:
        assert enter(members, lane, "sign-up", "gRACE").status_code == 409


def test_tables_have_neither_passwords_nor_tokens(members: DevServer, project: Path) -> None:
    sessions = [token(enter(members, lane, "sign-up", f"stored {lane}")) for lane in LANES]
    (database,) = (project / ".svc").rglob("tables.db")
    connection = apsw.Connection(str(database))
    hashes = connection.execute("select password from members where name like 'stored %'").fetchall()
    assert len({hash for (hash,) in hashes}) == len(LANES)
    assert all(hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$") for (hash,) in hashes)
    stored = {id for (id,) in connection.execute("select id from sessions")}
    assert {hashlib.sha256(session.encode()).hexdigest() for session in sessions} <= stored
    connection.close()


def test_page_signs_up_shows_errors_and_logs_out(members: DevServer) -> None:
    async def submit(page: Page, lane: str, action: str, name: str, password: str) -> None:
        await page.value(
            "(() => { const form = document.querySelector('#enter');"
            f" form.elements.name.value = {json.dumps(name)};"
            f" form.elements.password.value = {json.dumps(password)}; form.elements.lane.value = '{lane}';"
            f" form.requestSubmit(form.querySelector('button[value={action}]')); }})()"
        )

    async def visit() -> None:
        async with chromium() as page:
            await page.call("Runtime.enable")
            await page.call("Page.enable")
            await page.call("Page.navigate", url=members.url + "/")
            for lane, name in zip(LANES, ("JavaScript", "Go", "Rust"), strict=True):
                await page.until(
                    "document.readyState === 'complete' && document.querySelector('#enter') !== null"
                )
                await submit(page, lane, "log-in", f"visitor {lane}", SECRET)
                await page.until("document.querySelector('output')?.textContent === 'Wrong name or password'")
                await submit(page, lane, "sign-up", f"visitor {lane}", SECRET)
                await page.until(
                    f"location.pathname === '/{lane}/home' && document.querySelector('form') !== null"
                )
                assert (
                    await page.value("document.querySelector('h1').textContent") == f"Hello, visitor {lane}"
                )
                assert name in await page.value("document.querySelector('.lane').textContent")
                assert await page.value("document.cookie") == ""
                if folder := os.environ.get("SVC_TEST_SCREENSHOTS"):
                    shot = await page.call("Page.captureScreenshot")
                    (Path(folder) / f"members-{lane}.png").write_bytes(base64.b64decode(shot["data"]))
                await page.value("document.querySelector('form').requestSubmit()")
                await page.until("location.pathname === '/'")
            assert [event for event in page.events if event["method"] == "Runtime.exceptionThrown"] == []

    asyncio.run(visit())
