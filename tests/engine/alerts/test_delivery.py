"""Delivery of alerts to receivers that are slow, refuse, redirect, or do not answer."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.alerts import alerts as delivery
from engine.alerts.alerts import (
    GIVE_UP_SECONDS,
    MAX_WAITING,
    Alert,
    AlertMonitor,
    Sender,
    Webhook,
    parse_target,
)
from engine.cancellation import cancel
from engine.errors import InvalidUsage, SvcError
from engine.metrics.families import ServiceMeter
from tests.engine.alerts.webhook import receiving

apprise_warns = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
ALERT = Alert(
    kind="disk", project=None, severity="error", text="full ü", since="2026", url="https://apps.example"
)


@pytest.fixture
def short_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "ATTEMPT_SECONDS", 0.3)


def attempt(url: str) -> str:
    failure = asyncio.run(parse_target(url).send(ALERT))
    return failure.text if failure else ""


def test_webhook_gets_the_document() -> None:
    with receiving() as webhook:
        assert attempt(webhook.url) == ""
        assert webhook.alerts == [
            {
                "kind": "disk",
                "project": None,
                "severity": "error",
                "text": "full ü",
                "since": "2026",
                "until": None,
                "url": "https://apps.example",
            }
        ]


@pytest.mark.parametrize(
    ("status", "failure"),
    [(500, "status 500"), (429, "status 429"), (404, "status 404: the receiver refuses it, check the URL")],
)
def test_webhook_that_fails_is_a_failure(status: int, failure: str) -> None:
    with receiving() as webhook:
        webhook.status = status
        assert attempt(webhook.url) == failure


@pytest.mark.parametrize("status", [0, -1])
@pytest.mark.usefixtures("short_attempts")
def test_webhook_that_hangs_or_never_ends_its_head_is_a_failure(status: int) -> None:
    with receiving() as webhook:
        webhook.status = status
        assert attempt(webhook.url).startswith("no response within")


def test_webhook_that_redirects_is_a_failure_and_gets_one_request() -> None:
    with receiving() as webhook:
        webhook.status = 307
        assert "pass the URL to which it redirects" in attempt(webhook.url)
        assert webhook.requests == 1


@pytest.mark.usefixtures("short_attempts")
def test_webhook_that_refuses_or_does_not_accept_the_connection_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert attempt(f"http://127.0.0.1:{port}/") != ""
    assert attempt(f"http://127.0.0.1:{port}/") != ""


@pytest.mark.usefixtures("short_attempts")
def test_webhook_with_an_untrusted_certificate_or_unknown_name_is_a_failure() -> None:
    with receiving() as webhook:
        assert attempt(webhook.url.replace("http", "https")) != ""
    assert attempt("https://hook.invalid/x") != ""


@pytest.mark.parametrize(
    "url",
    ["hook.example.com", "", "https://", "https://h:x/", "https://[/", "https://a\n.example/", "http:///x"],
)
def test_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidUsage, match="--notify"):
        parse_target(url)


@apprise_warns
def test_names_of_receivers_contain_no_path_or_password() -> None:
    pytest.importorskip("apprise")
    for url in ("https://ann:secret@hook.example.com:8443/secret?secret", "mailto://ann:secret@example.com"):
        assert "secret" not in parse_target(url).name


@apprise_warns
def test_url_that_apprise_does_not_accept_is_refused_without_its_path() -> None:
    pytest.importorskip("apprise")
    with pytest.raises(InvalidUsage, match="Apprise does not accept --notify discord://…") as caught:
        parse_target("discord://secret")
    assert "secret" not in caught.value.text


@apprise_warns
def test_apprise_sends_title_and_text_and_reports_failures() -> None:
    pytest.importorskip("apprise")
    with receiving() as webhook:
        url = webhook.url.replace("http", "json")
        assert attempt(url) == ""
        (sent,) = webhook.alerts
        assert (sent["title"], sent["type"]) == ("svc: disk", "failure")
        assert sent["message"] == "full ü\nhttps://apps.example"
        webhook.status = 500
        assert attempt(url) == "Apprise could not send it"


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    with pytest.raises(SvcError) as caught:
        parse_target("mailto://ann@example.com")
    assert caught.value.code == "notify-not-installed"
    assert "pip install 'svc-tui[notify]'" in caught.value.hint
    assert isinstance(parse_target("https://hook.example.com"), Webhook)


class Delivery:
    """A sender with a clock that advances in its pauses, until `stop` says that it is enough."""

    def __init__(self, url: str, stop: Callable[["Delivery"], bool]) -> None:
        self.now, self._stop = 0.0, stop
        self.pauses: list[float] = []
        self.lost: list[str] = []
        self.warned: list[str] = []
        self.sender = Sender(
            parse_target(url),
            lambda alert, why: self.lost.append(why),
            self.warned.append,
            clock=lambda: self.now,
            wait=self.wait,
        )

    async def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        if self._stop(self):
            raise asyncio.CancelledError


def run(delivery: Delivery, alerts: int, done: Callable[[], bool] = lambda: False) -> None:
    async def scenario() -> None:
        for _ in range(alerts):
            delivery.sender.add(ALERT)
        task = asyncio.create_task(delivery.sender.run())
        while not task.done() and not done():  # noqa: ASYNC110 - the receiver is a thread
            await asyncio.sleep(0.01)
        await cancel([task])

    asyncio.run(scenario())


def test_failed_attempts_are_repeated_with_growing_pauses_and_warned_of_once() -> None:
    with receiving() as webhook:
        webhook.status = 500

        def recover(delivery: Delivery) -> bool:
            webhook.status = 200 if len(delivery.pauses) == 4 else 500
            return False

        delivery = Delivery(webhook.url, recover)
        run(delivery, 2, lambda: len(webhook.alerts) == 2)
        assert delivery.pauses == [10, 20, 40, 80]
        assert delivery.warned == [f"alerts do not reach {webhook.name}; svc tries for a day: status 500"]
        assert set(delivery.lost) <= {"the service stops"}  # The last response may still be on its way.


def test_alert_is_lost_after_a_day_of_attempts_and_at_the_end() -> None:
    with receiving() as webhook:
        webhook.status = 503
        delivery = Delivery(webhook.url, lambda delivery: bool(delivery.lost))
        run(delivery, 2, lambda: bool(delivery.lost))
        assert GIVE_UP_SECONDS <= delivery.now < GIVE_UP_SECONDS + 900
        assert max(delivery.pauses) == 900
        assert delivery.lost[0] == "status 503" and set(delivery.lost[1:]) <= {
            "status 503",
            "the service stops",
        }
        assert len(delivery.lost) == 2


@pytest.mark.parametrize("status", [400, 404, 410, 413])
def test_alert_that_a_receiver_refuses_is_not_retried_and_delays_no_later_one(status: int) -> None:
    with receiving() as webhook:
        webhook.status = status

        def accept(delivery: Delivery) -> bool:
            webhook.status = 200
            return False

        delivery = Delivery(webhook.url, accept)
        lost = delivery.lost
        run(delivery, 2, lambda: len(lost) == 2)
        assert lost == [f"status {status}: the receiver refuses it, check the URL"] * 2
        assert not delivery.pauses and not delivery.warned and webhook.requests == 2


@pytest.mark.parametrize("status", [408, 425, 429])
def test_alert_that_a_receiver_cannot_take_now_is_retried(status: int) -> None:
    with receiving() as webhook:
        webhook.status = status

        def accept(delivery: Delivery) -> bool:
            webhook.status = 200
            return False

        delivery = Delivery(webhook.url, accept)
        run(delivery, 1, lambda: bool(webhook.alerts))
        assert delivery.pauses == [10] and not set(delivery.lost) - {"the service stops"}


def test_receivers_that_fail_delay_no_other_receiver(tmp_path: Path) -> None:
    async def scenario(urls: list[str], done: Callable[[], bool]) -> None:
        monitor = AlertMonitor(
            tmp_path,
            None,
            ServiceMeter(),
            memory=lambda: (0, 1),
            absent=absent,
            url_of=str,
            targets=[parse_target(url) for url in urls],
            lost=lambda alert, why: None,
            warn=lambda text: None,
        )
        monitor.start()
        for number in range(20):
            monitor.report("deploy-failed", f"p{number}", "failed")
        async with asyncio.timeout(60):
            while not done():  # noqa: ASYNC110 - the receiver is a thread
                await asyncio.sleep(0.01)
        await monitor.aclose()

    async def absent() -> tuple[dict[str, str], bool]:
        return {}, False

    with receiving() as hanging, receiving() as failing, receiving() as working:
        hanging.status, failing.status = 0, 503
        urls = [each.url for each in (hanging, failing, working)]
        asyncio.run(scenario(urls, lambda: len(working.alerts) == 20))
        assert [each["project"] for each in working.alerts] == [f"p{number}" for number in range(20)]


def test_flood_while_a_webhook_hangs_is_bounded_and_each_lost_alert_reported() -> None:
    with receiving() as webhook:
        webhook.status = 0
        delivery = Delivery(webhook.url, lambda delivery: True)
        for _ in range(10 * MAX_WAITING):
            delivery.sender.add(ALERT)
        assert delivery.lost == [f"{MAX_WAITING} alerts wait already"] * (9 * MAX_WAITING)
