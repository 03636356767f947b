"""`svc console --web` end to end: the real program, its page in a real browser, and its processes."""

import asyncio
import base64
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.browser import RECEIVED, Page, chromium
from tests.support.waiting import until
from tests.support.web_console import (
    SECONDS,
    PageConnection,
    Web,
    read_until,
    send,
    socket,
    wait_for_exit,
    web_console,
)

pytestmark = pytest.mark.slow
TYPING = """
    window.received?.includes("● live") && document.activeElement?.classList.contains("xterm-helper-textarea")
"""
"""True once the Console has received typed text."""


def created(folder: Path) -> Path:
    """Create a project with an empty table `people`."""
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "index.html").write_text("hello")
    (folder / "svc.toml").write_text(
        '[project]\nname = "shop"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'
    )
    (folder / "tables").mkdir()
    (folder / "tables" / "001.sql").write_text("create table people (id integer primary key, name text);")
    return folder


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server for the tests that leave it running and the table empty; the last ones do not."""
    folder = tmp_path_factory.mktemp("web")
    with web_console(created(folder / "my shop ü"), folder / "home") as running:
        yield running


@pytest.fixture
def own_web(tmp_path: Path) -> Iterator[Web]:
    """A server for one test."""
    with web_console(created(tmp_path / "my shop ü"), tmp_path / "home") as running:
        yield running


@pytest.fixture
def cookie(web: Web) -> str:
    for session in web.sessions():
        wait_for_exit(session)
    return web.entered()


def test_page_requires_key_that_works_once(web: Web) -> None:
    for path in ("/", "/-/static/textual.js", "/?key=wrong", "/?key="):
        assert httpx.get(web.url + path, timeout=60).status_code == 403
    key = web.address()
    first = httpx.get(key, timeout=60)
    assert first.status_code == 303
    field = first.headers["set-cookie"].lower()
    assert "httponly" in field
    assert "samesite=strict" in field
    assert httpx.get(key, timeout=60).status_code == 403
    web.wait_for_key(key)
    assert web.address() != key
    assert httpx.get(web.address(), timeout=60).status_code == 303
    cookie = first.headers["set-cookie"].partition(";")[0]
    page = httpx.get(web.url, headers={"Cookie": cookie}, timeout=60)
    assert page.status_code == 200
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert (
        httpx.get(f"{web.url}/-/static/textual.js", headers={"Cookie": cookie}, timeout=60).status_code == 200
    )
    assert httpx.get(f"{web.url}/-/static/", headers={"Cookie": cookie}, timeout=60).status_code in (403, 404)


def test_foreign_hosts_and_origins_are_rejected(web: Web, cookie: str) -> None:
    rebound = httpx.get(web.url, headers={"Cookie": cookie, "Host": "evil.example:80"}, timeout=60)
    assert rebound.status_code == 421
    for origin in ("http://localhost:3000", "https://evil.example", "null"):
        with socket(web, cookie, origin) as page:
            assert page.response.status_code == 403
    assert web.sessions() == []


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "127.0.0.1@evil.example",
        "localhost evil.example",
        "[::1].evil.example",
        "",
    ],
)
def test_rebound_host_is_rejected_and_leaves_the_key(web: Web, cookie: str, host: str) -> None:
    key = web.address()
    for url in (key, web.url, f"{web.url}/stream", f"{web.url}/-/static/textual.js"):
        for headers in ({"Host": host}, {"Host": host, "Cookie": cookie, "Origin": f"http://{host}"}):
            assert httpx.get(url, headers=headers, timeout=60).status_code in (400, 421)
    assert httpx.get(key, timeout=60).status_code == 303
    web.wait_for_key(key)


def test_page_of_another_site_cannot_act_or_fix_a_session(web: Web, cookie: str) -> None:
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        for path in ("/", "/stream", "/-/static/textual.js"):
            assert httpx.request(method, web.url + path, headers=foreign, timeout=60).status_code == 403
            answer = httpx.request(method, web.url + path, headers={**foreign, "Cookie": cookie}, timeout=60)
            assert answer.status_code in (403, 405)
            assert not [name for name in answer.headers if name.startswith("access-control-")]
    name = cookie.partition("=")[0]
    planted = f"{name}=planted-by-another-page"
    key = web.address()
    answer = httpx.get(key, headers={"Cookie": planted}, timeout=60)
    assert answer.status_code == 303
    assert answer.headers["set-cookie"].startswith(f"{name}=")
    assert "planted" not in answer.headers["set-cookie"]
    assert httpx.get(web.url, headers={"Cookie": planted}, timeout=60).status_code == 403
    web.wait_for_key(key)
    assert web.sessions() == []


@pytest.mark.parametrize("value", [b"\xff", b"\xed\xa0\x80", "é".encode(), b"%ff", b'"a', b"a" * 6000])
def test_malformed_key_or_cookie_is_forbidden(web: Web, cookie: str, value: bytes) -> None:
    name = cookie.partition("=")[0].encode()
    assert httpx.get(web.url, headers={b"Cookie": name + b"=" + value}, timeout=60).status_code == 403
    encoded = "".join(f"%{byte:02x}" for byte in value[:100])
    assert httpx.get(f"{web.url}/?key={encoded}", timeout=60).status_code == 403


def test_page_shows_console_and_receives_keys(web: Web) -> None:
    address = web.address()

    async def visit() -> None:
        async with chromium() as page:
            await page.call("Network.enable")
            await page.call("Runtime.enable")
            await page.call("Page.enable")
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=RECEIVED)
            await page.call("Page.navigate", url=address)
            await page.until("window.received?.includes('● live')")
            await page.until("document.body.classList.contains('-first-byte')")
            assert "key=" not in await page.value("location.href")
            assert await page.value("document.cookie") == ""
            await shown(page, "board")
            await page.call("Input.dispatchKeyEvent", type="char", text="3")
            await page.until("window.received.includes('Filter')")
            await shown(page, "logs")
            hosts = {
                "/".join(event["params"]["request"]["url"].split("/")[:3])
                for event in page.events
                if event["method"] == "Network.requestWillBeSent"
                and not event["params"]["request"]["url"].startswith("data:")
            }
            assert hosts == {web.url}
            trouble = [event for event in page.events if event["method"] == "Runtime.exceptionThrown"]
            assert trouble == []
            await page.call("Input.dispatchKeyEvent", type="char", text="q")
            await page.until("document.body.classList.contains('-closed')")

    asyncio.run(visit())


async def shown(page: Page, name: str) -> None:
    if folder := os.environ.get("SVC_TEST_SCREENSHOTS"):
        await asyncio.sleep(0.5)
        shot = await page.call("Page.captureScreenshot")
        (Path(folder) / f"web-{name}.png").write_bytes(base64.b64decode(shot["data"]))


def test_closed_page_stops_only_its_console(web: Web, cookie: str) -> None:
    with socket(web, cookie) as page:
        read_until(page, "live")
        (first,) = web.sessions()
        with socket(web, cookie) as other:
            read_until(other, "live")
            assert len(web.sessions()) == 2
        until(lambda: web.sessions() == [first], SECONDS)
        send(page, "3")
        read_until(page, "Filter")


def add_a_row(connection: PageConnection) -> None:
    """Add a staged row with a name in Tables."""
    for keys, shown in (("2", "no rows"), ("a", "+"), ("le", "Default"), ("Grace\r", "Grace")):
        send(connection, keys)
        read_until(connection, shown)


def test_discarded_edits_do_not_detach_session(web: Web, cookie: str) -> None:
    with socket(web, cookie) as connection:
        read_until(connection, "live")
        add_a_row(connection)
        sessions = web.sessions()
        send(connection, "\x03")
        read_until(connection, "discard")
        send(connection, "y")
        assert "has exited" in connection.text_to_end()
    for each in sessions:
        wait_for_exit(each)


def test_closing_page_with_edits_asks_first(web: Web) -> None:
    address = web.address()

    async def visit() -> None:
        async with chromium() as page:
            await page.call("Runtime.enable")
            await page.call("Page.enable")
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=RECEIVED)
            await page.call("Page.navigate", url=address)
            await page.until(TYPING)
            await page.press_until("2", "window.received.includes('no rows')")
            await page.call("Page.reload")
            await page.until(TYPING)
            assert page.dialogs() == []
            await page.press_until("2", "window.received.includes('no rows')")
            await page.press("a")
            await page.until("pending === 1")
            await shown(page, "pending")
            for accept in (False, True):
                page.events.clear()
                await page.value("window.received = ''")
                await page.call("Page.reload")
                await page.until_event("Page.javascriptDialogOpening")
                assert page.dialogs() == ["beforeunload"]
                await page.call("Page.handleJavaScriptDialog", accept=accept)
            await page.until("window.received?.includes('people') && pending === 1")
            await shown(page, "again")
            await page.press("u")
            await page.until("pending === 0")

    asyncio.run(visit())


def test_pending_edits_survive_closed_page(web: Web, cookie: str) -> None:
    with socket(web, cookie) as connection:
        read_until(connection, "live")
        add_a_row(connection)
        sessions = web.sessions()
    with socket(web, cookie) as connection:
        for text in ('["pending", 1]', "\x1b[?1049h", "\x1b[?1003h", "Grace"):
            read_until(connection, text)
        assert web.sessions() == sessions
        send(connection, "\x13")
        read_until(connection, '["pending", 0]')
    for each in sessions:
        wait_for_exit(each)


def stops(web: Web, cookie: str, number: int) -> None:
    """Signal a server with a page, and wait until the page, its Console and the server have ended."""
    with socket(web, cookie) as connection:
        read_until(connection, "live")
        sessions = web.sessions()
        web.process.send_signal(number)
        connection.text_to_end()
    assert web.process.wait(SECONDS) == 0
    for session in sessions:
        wait_for_exit(session)


def test_terminated_server_stops_page_console_and_engine(web: Web, cookie: str) -> None:
    stops(web, cookie, signal.SIGTERM)


def test_interrupted_server_stops_page_console_and_engine_and_kills_a_suspended_console(own_web: Web) -> None:
    cookie = own_web.entered()
    with socket(own_web, cookie) as connection:
        read_until(connection, "live")
        (suspended,) = own_web.sessions()
        os.kill(suspended, signal.SIGSTOP)
        stops(own_web, cookie, signal.SIGINT)


def test_no_color_applies_in_browser_and_killed_server_stops_its_console(tmp_path: Path) -> None:
    with (
        web_console(created(tmp_path / "shop"), tmp_path / "home", NO_COLOR="1") as web,
        socket(web, web.entered()) as connection,
    ):
        screen_text = read_until(connection, "● live")
        sessions = web.sessions()
        assert len(sessions) == 1
        web.process.kill()
        web.process.wait(SECONDS)
    for each in sessions:
        wait_for_exit(each)
    coloured = re.findall(r"\x1b\[[\d;]*\b[34]8;2;(\d+);(?!\1;\1)[\d;]*m", screen_text)
    assert "8;2;" in screen_text
    assert not coloured


def test_interrupt_with_pending_edits_warns_first(own_web: Web) -> None:
    with socket(own_web, own_web.entered()) as connection:
        read_until(connection, "live")
        add_a_row(connection)
        own_web.process.send_signal(signal.SIGINT)
        assert own_web.process.stderr is not None
        assert any("1 edit is not applied" in line for line in own_web.process.stderr)
        own_web.process.send_signal(signal.SIGINT)
        assert own_web.process.wait(SECONDS) == 0


def test_non_loopback_host_requires_insecure(tmp_path: Path) -> None:
    refused = Web(created(tmp_path / "shop"), tmp_path / "home", "--host", "0.0.0.0")
    assert refused.process.stderr is not None
    assert refused.process.wait(SECONDS) == 2
    assert "without TLS" in refused.process.stderr.read()
    refused.process.stderr.close()
    refused.reader.join(SECONDS)
