"""`sample-apps/inbox`: signed webhooks, a job for each with retries, and a report of a schedule."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.browser import chromium
from tests.support.dev_server import SHOW_SECONDS, DevServer, dev_server
from tests.support.samples import copied_sample
from tests.support.service import prepare

pytestmark = pytest.mark.slow
KEY = b"an odd key of 24 bytes ."
PASSWORD = "a password"
AUTHORIZED = {"authorization": f"Bearer {PASSWORD}"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = copied_sample("inbox", tmp_path_factory.mktemp("inbox"))
    secret = base64.b64encode(KEY).decode()
    (project / ".env").write_text(f"WEBHOOK_SECRET=whsec_{secret}\nINBOX_PASSWORD='{PASSWORD}'\n")
    return project


@pytest.fixture(scope="module")
def inbox(project: Path, home: Path) -> Iterator[DevServer]:
    """A server for all tests."""
    with dev_server(project, home) as server:
        yield server


def send(server: DevServer, message: str, body: str, **changed: str) -> httpx.Response:
    """Send a signed message, with some header fields changed after the signature."""
    sent = str(int(time.time()) + int(changed.pop("late", 0)))
    digest = hmac.digest(KEY, f"{message}.{sent}.{body}".encode(), hashlib.sha256)
    headers = {
        "webhook-id": message,
        "webhook-timestamp": sent,
        "webhook-signature": f"v1,AAAA v1,{base64.b64encode(digest).decode()}",
    }
    headers |= {f"webhook-{name}": value for name, value in changed.items()}
    return server.request("POST", "/hooks", content=body, headers=headers)


def messages(server: DevServer) -> dict[str, Any]:
    answer = server.get("/api/messages", headers=AUTHORIZED)
    assert answer.status_code == 200, answer.text
    return {message["id"]: message for message in answer.json()["messages"]}


def until(server: DevServer, id: str, holds: Callable[[Any], bool]) -> Any:
    end = time.monotonic() + SHOW_SECONDS
    while not holds(message := messages(server)[id]):
        assert time.monotonic() < end, message
        time.sleep(0.05)
    return message


def order(amount: Any) -> str:
    return json.dumps({"type": "order.paid", "data": {"amount": amount}})


def test_signed_message_is_stored_once_and_handled_by_a_job(inbox: DevServer) -> None:
    assert (send(inbox, "a", order(7)).status_code, send(inbox, "a", order(7)).json()) == (
        202,
        {"id": "a", "duplicate": True},
    )
    message = until(inbox, "a", lambda message: message["state"] == "done")
    assert (message["tries"], message["error"], message["body"]) == (1, None, order(7))


@pytest.mark.parametrize(
    "changed",
    [{"id": "other"}, {"signature": "v1,AAAA"}, {"signature": ""}, {"late": "310"}, {"late": "-310"}],
)
def test_message_with_another_signature_is_refused(inbox: DevServer, changed: dict[str, str]) -> None:
    assert send(inbox, "forged", order(7), **changed).status_code == 401
    assert not {"forged", "other"} & messages(inbox).keys()


def test_body_that_is_not_json_or_too_large_is_refused(inbox: DevServer) -> None:
    assert send(inbox, "text", "{").status_code == 400
    assert send(inbox, "large", json.dumps("x" * (256 << 10))).status_code == 413
    assert not {"text", "large"} & messages(inbox).keys()


def test_unusable_message_fails_until_the_page_retries_it(inbox: DevServer) -> None:
    assert send(inbox, "bad/?&%", order("x")).status_code == 202
    message = until(inbox, "bad/?&%", lambda message: message["state"] == "failed")
    assert (message["tries"], message["error"]) == (1, "data.amount is not an integer")
    retried = inbox.request("PUT", "/api/messages/bad%2F%3F%26%25", headers=AUTHORIZED)
    assert retried.status_code == 202
    until(inbox, "bad/?&%", lambda message: message["state"] == "failed" and message["tries"] == 1)
    assert inbox.request("PUT", "/api/messages/a", headers=AUTHORIZED).status_code == 409


def test_message_waits_for_its_next_try_after_an_error(inbox: DevServer, project: Path, home: Path) -> None:
    assert send(inbox, "flaky", '{"type": "demo.flaky"}').status_code == 202
    message = until(inbox, "flaky", lambda message: message["tries"] == 1)
    assert (message["state"], message["error"]) == ("waiting", "another server did not answer")
    assert '"message flaky"' in prepare(
        project, os.environ | {"SVC_HOME": str(home)}, "jobs", "list", "--json"
    )


def test_schedule_writes_a_report(inbox: DevServer, project: Path, home: Path) -> None:
    assert send(inbox, "reported", order(1000)).status_code == 202
    until(inbox, "reported", lambda message: message["state"] == "done")
    while True:  # A report is about the time before its second begins.
        prepare(project, os.environ | {"SVC_HOME": str(home)}, "schedule", "run", "/report")
        [report, *_] = inbox.get("/api/messages", headers=AUTHORIZED).json()["reports"]
        if report["amount"] >= 1000:
            break
    assert report["received"] >= report["done"] >= 1


def test_page_and_api_need_the_password(inbox: DevServer) -> None:
    for headers in ({}, {"authorization": "Bearer x"}, {"authorization": PASSWORD}):
        assert inbox.get("/api/messages", headers=headers).status_code == 401
    assert inbox.get("/api/nothing", headers=AUTHORIZED).status_code == 404
    assert inbox.request("POST", "/api/handle", headers={"x-svc-job": "1"}).status_code == 401

    async def visit() -> None:
        async with chromium() as page:
            await page.call("Runtime.enable")
            await page.call("Page.enable")
            await page.call("Page.navigate", url=inbox.url + "/")
            await page.until("document.querySelector('#enter')?.hidden === false")
            for password, holds in (
                ("wrong", "document.querySelector('#status').textContent === 'Wrong password'"),
                (PASSWORD, "document.querySelector('#messages li') !== null"),
            ):
                await page.value(
                    f"document.querySelector('#password').value = {json.dumps(password)};"
                    " document.querySelector('#enter').requestSubmit()"
                )
                await page.until(holds)
            send(inbox, "<i>shown</i>", order(1))
            texts = "[...document.querySelectorAll('#messages pre')].map((each) => each.textContent).join()"
            await page.until(f"{texts}.includes('<i>shown</i>')")
            assert [event for event in page.events if event["method"] == "Runtime.exceptionThrown"] == []

    asyncio.run(visit())


def test_api_without_secrets_names_the_missing_one(inbox: DevServer, project: Path) -> None:
    text = (project / ".env").read_text()
    try:
        (project / ".env").write_text("")
        answer = inbox.until("/api/messages", lambda answer: answer.status_code == 503)
        assert answer.json()["title"] == "WEBHOOK_SECRET has no value"
    finally:
        (project / ".env").write_text(text)
        inbox.until("/api/messages", lambda answer: answer.status_code == 401)
