"""The Console that a service serves to browsers: a real `svc serve` and a real browser."""

import asyncio
import base64
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from svc_tui.client import Client
from tests.support.browser import RECEIVED, Page, chromium
from tests.support.service import PASSWORD, Server, environ_of, login, prepare, static_project
from tests.support.waiting import until
from tests.support.web_console import SECONDS, PageConnection, read_until, send

pytestmark = pytest.mark.slow
TABLE = "create table people (id integer primary key, name text, photo blob);"


@dataclass
class Live:
    """A service with two deployed projects; `owner` is a client of its control API."""

    server: Server
    owner: Client

    @property
    def url(self) -> str:
        """The address of the service at its domain."""
        return f"http://localhost:{self.server.port}"

    def user(self, name: str, **roles: str) -> str:
        """Create a user, and return the cookie of a login."""
        self.owner.call("PUT", f"/v1/users/{name}", {"password": PASSWORD, "roles": roles})
        return self.cookie(name)

    def cookie(self, name: str) -> str:
        """Log in with the form, and return the Cookie header."""
        answer = self.log_in(name, PASSWORD)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["set-cookie"].partition(";")[0])

    def log_in(self, name: str, password: str, **more: str) -> httpx.Response:
        data = {"user": name, "password": password, "project": more.get("project", "")}
        headers = {"Origin": more.get("origin", self.url)}
        return httpx.post(f"{self.url}/console/-/login", data=data, headers=headers, timeout=SECONDS)

    def get(self, path: str, cookie: str = "", host: str = "") -> httpx.Response:
        headers = {"Cookie": cookie, "Host": host or f"localhost:{self.server.port}"}
        return httpx.get(f"http://127.0.0.1:{self.server.port}{path}", headers=headers, timeout=SECONDS)

    def page(self, project: str, cookie: str) -> PageConnection:
        return PageConnection(f"{self.url}/console/{project}", cookie)


def started(folder: Path, *options: str) -> Live:
    """Start a service, and deploy `blog` and `shop`."""
    environ = environ_of(folder / "home")
    server = Server(folder / "data", environ, *options)
    for name in ("shop", "blog"):
        project = static_project(folder / name, name)
        (project / "tables").mkdir()
        (project / "tables" / "001.sql").write_text(TABLE)
        if name == "shop":
            login(server, project, environ)
        prepare(project, environ, "deploy")
    session = json.loads((folder / "home" / "sessions.json").read_text())
    token = session["services"][server.control]["token"]
    return Live(server, Client(server.control, token))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    live = started(tmp_path_factory.mktemp("hosted"))
    yield live
    live.owner.close()
    assert live.server.stop() == 0


def test_login_requires_password_and_own_origin(live: Live) -> None:
    page = live.get("/console/")
    assert page.status_code == 200
    assert 'type="password"' in page.text
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    wrong = live.log_in("ann", "wrong")
    assert wrong.status_code == 401
    assert "The user name or the password is wrong." in wrong.text
    assert 'value="ann"' in wrong.text
    foreign = live.log_in("ann", PASSWORD, origin=f"http://web--shop.localhost:{live.server.port}")
    assert foreign.status_code == 403
    assert "set-cookie" not in foreign.headers
    right = live.log_in("ann", PASSWORD, project="shop")
    assert right.headers["location"] == "/console/shop/"
    field = right.headers["set-cookie"].lower()
    assert all(flag in field for flag in ("httponly", "samesite=strict", "path=/console/"))
    outside = live.log_in("ann", PASSWORD, project="//evil.example")
    assert outside.headers["location"] == "/console/"


def test_secure_page_gets_cookie_that_subdomains_cannot_set(live: Live) -> None:
    answer = live.log_in("ann", PASSWORD, origin=live.url.replace("http:", "https:"))
    assert answer.headers["set-cookie"].startswith("__Host-svc-console=")
    assert "Secure" in answer.headers["set-cookie"]


def test_failed_logins_are_throttled_like_those_of_the_api(live: Live) -> None:
    answers = guesses(live)
    assert [answer.status_code for answer in answers[:5]] == [401] * 5
    assert int(answers[-1].headers["retry-after"]) > 0
    assert "Too many failed logins" in answers[-1].text


def guesses(live: Live) -> list[httpx.Response]:
    """Guess a password until it is refused to try again; each attempt must wait twice as long as the last."""
    answers = [live.log_in("mallory", "guess")]
    while answers[-1].status_code != 429:
        assert len(answers) < 16
        answers.append(live.log_in("mallory", "guess"))
    return answers


def test_domain_serves_the_console_and_nothing_of_the_control_api(live: Live) -> None:
    cookie = live.cookie("ann")
    token = {"Authorization": f"Bearer {cookie.partition('=')[2]}"}
    for path in (
        "/v1/health",
        "/v1/whoami",
        "/console/v1/whoami",
        "/console/%2e%2e/v1/whoami",
        "/console/../v1/whoami",
    ):
        request = httpx.Request("GET", f"{live.url}{path}", headers={**token, "Cookie": cookie})
        request.extensions["target"] = path.encode()
        with httpx.Client(timeout=60) as client:
            assert client.send(request).status_code == 404, path
    assert live.get("/console/", host="web--shop.localhost").status_code == 404
    assert live.get("/console/", host="evil.example").status_code == 404
    assert httpx.get(f"{live.server.control}/console/", timeout=60).status_code == 200
    assert httpx.get(f"{live.server.control}/v1/health", timeout=60).status_code == 200
    assert live.get("/console", cookie).status_code in (301, 307, 308)


def test_list_has_projects_of_the_user_and_logout_ends_the_session(live: Live) -> None:
    cookie = live.cookie("ann")
    listed = live.get("/console/", cookie)
    assert re.findall(r'href="/console/([a-z]+)/"', listed.text) == ["blog", "shop"]
    reader = live.user("reader", blog="viewer")
    assert live.get("/console/", reader).headers["location"] == "/console/blog/"
    missing = live.get("/console/shop/", reader)
    assert missing.status_code == 404
    assert "Project shop not found" in missing.text
    for project in ("shop", "input"):
        with live.page(project, reader) as refused:
            assert refused.response.status_code == 404
    newcomer = live.user("newcomer")
    assert "svc deploy" in live.get("/console/", newcomer).text
    left = httpx.post(
        f"{live.url}/console/-/logout",
        headers={"Cookie": cookie, "Origin": "http://evil.example"},
        timeout=60,
    )
    assert left.status_code == 403
    left = httpx.post(
        f"{live.url}/console/-/logout", headers={"Cookie": cookie, "Origin": live.url}, timeout=60
    )
    assert left.status_code == 303
    assert 'type="password"' in live.get("/console/", cookie).text
    with (
        Client(live.server.control, cookie.partition("=")[2]) as client,
        pytest.raises(Exception, match="not logged in"),
    ):
        client.call("GET", "/v1/whoami")


def test_foreign_pages_cannot_open_read_or_type(live: Live) -> None:
    cookie = live.cookie("ann")
    other = f"http://web--shop.localhost:{live.server.port}"
    with PageConnection(f"{live.url}/console/shop", cookie, other) as foreign:
        assert foreign.response.status_code == 403
    with live.page("shop", "") as unknown:
        assert unknown.response.status_code == 403
    with live.page("shop", cookie) as page:
        number = page.response.headers["x-svc-page"]
        for headers in ({"Cookie": cookie, "Origin": other}, {"Origin": live.url}):
            answer = httpx.post(
                f"{live.url}/console/shop/input/{number}", headers=headers, content="[]", timeout=60
            )
            assert answer.status_code == 403
        headers = {"Cookie": live.cookie("ann"), "Origin": live.url}
        answer = httpx.post(
            f"{live.url}/console/shop/input/{number}", headers=headers, content='["focus"]', timeout=60
        )
        assert answer.status_code == 410


def test_viewer_cannot_edit_and_lost_role_ends_the_page(live: Live) -> None:
    cookie = live.user("eve", shop="viewer")
    with live.page("shop", cookie) as page:
        read_until(page, "● live")
        send(page, "2")
        read_until(page, "no rows")
        send(page, "a")
        read_until(page, "+")
        send(page, "e")
        read_until(page, "Default")
        send(page, "Eve\r")
        read_until(page, "Eve")
        send(page, "\x13")
        read_until(page, "only viewer of")
        live.owner.call("DELETE", "/v1/users/eve/roles/shop")
        assert "eve has no role in the project shop" in page.text_to_end()


def test_revoked_session_ends_its_page_and_its_process(live: Live) -> None:
    cookie = live.user("kim", shop="deployer")
    with live.page("shop", cookie) as page:
        read_until(page, "● live")
        live.owner.call("DELETE", "/v1/users/kim")
        assert "You were logged out" in page.text_to_end()
    until(lambda: not consoles(live), SECONDS)


def consoles(live: Live) -> list[bytes]:
    """Return the command lines of the Consoles of the service, and check their environments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parent = re.search(r"^PPid:\t(\d+)$", (folder / "status").read_text(), re.MULTILINE)
            if b"console.web.child" in command and parent and int(parent[1]) == live.server.process.pid:
                environ = (folder / "environ").read_bytes()
                assert b"svcs_" not in command
                assert b"SVC_HOME" not in environ
                assert b"PATH=" not in environ
                found.append(command)
        except OSError:
            continue
    return found


def test_actions_that_would_use_the_service_machine_are_refused(live: Live) -> None:
    with live.page("shop", live.cookie("ann")) as page:
        read_until(page, "● live")
        assert len(consoles(live)) == 1
        send(page, "2")
        before = read_until(page, "no rows")
        assert "Import" not in before
        send(page, "i")
        read_until(page, "svc tables import")
        send(page, "a")
        read_until(page, "+")
        send(page, "E")
        read_until(page, "in a terminal only")
        send(page, "le@/etc/passwd\r")
        read_until(page, "Enter the bytes as base64")


def test_page_offers_only_keys_that_work_there(live: Live) -> None:
    with live.page("shop", live.cookie("ann")) as page:
        read_until(page, "● live")
        send(page, "3")
        read_until(page, "ilter")
        send(page, "?")
        keys = read_until(page, "Drop last filter")
        send(page, "\x1b[F")  # Scrolls to the end.
        keys += read_until(page, "Palette")
        assert "Allow what was denied" in keys
        assert not re.search("Suspend|Replay|Undo a change", keys)
        send(page, "q")
        send(page, "\x1a")
        read_until(page, "only a Console in a terminal can be suspended")


def test_download_has_its_name_in_unicode(live: Live) -> None:
    cookie = live.cookie("ann")
    with live.page("shop", cookie) as page:
        read_until(page, "● live")
        send(page, "2")
        read_until(page, "no rows")
        send(page, "x")
        read_until(page, "Export the table")
        send(page, "\x15ö 1.csv\x13")
        read_until(page, "your browser downloads ö 1.csv")
        number = page.response.headers["x-svc-page"]
        answer = live.get(f"/console/shop/download/{number}/%C3%B6%201.csv", cookie)
    names = "filename=\"? 1.csv\"; filename*=UTF-8''%C3%B6%201.csv"
    assert answer.headers["content-disposition"] == f"attachment; {names}"


def test_service_without_console(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ, "--no-console")
    for address in (server.control, f"http://localhost:{server.port}"):
        assert httpx.get(f"{address}/console/", timeout=60).status_code == 404
    assert server.stop() == 0


def test_workers_forward_pages_to_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_by_killed_service = tmp_path / "svc-console-left"
    left_by_killed_service.mkdir()
    (left_by_killed_service / ".svc-owner").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    live = started(tmp_path, "--workers", "2")
    assert not left_by_killed_service.exists()
    try:
        assert 'type="password"' in live.get("/console/").text
        cookie = live.cookie("ann")
        assert guesses(live)
        forged = {"x-svc-origin": 'secret ["https", "192.0.2.1", 1]'}
        answer = httpx.get(f"{live.url}/console/", headers=forged, timeout=SECONDS)
        assert answer.status_code == 200 and len(answer.headers.get_list("date")) == 1
        with live.page("shop", cookie) as page:
            read_until(page, "● live")
            send(page, "2")
            read_until(page, "no rows")
        until(lambda: not consoles(live), SECONDS)
    finally:
        live.owner.close()
        assert live.server.stop() == 0


async def typed(page: Page, text: str) -> None:
    for key in text:
        await page.press(key)


async def key(page: Page, name: str, code: int, **more: Any) -> None:
    for kind in ("keyDown", "keyUp"):
        await page.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **more)


async def click(page: Page, x: float, y: float) -> None:
    for kind in ("mousePressed", "mouseReleased"):
        await page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


async def shown(page: Page, name: str) -> None:
    if folder := os.environ.get("SVC_TEST_SCREENSHOTS"):
        await asyncio.sleep(0.5)
        shot = await page.call("Page.captureScreenshot")
        (Path(folder) / f"hosted-{name}.png").write_bytes(base64.b64decode(shot["data"]))


def test_deployer_works_in_a_real_browser(live: Live, tmp_path: Path) -> None:
    """Log in, use keyboard and mouse on all tabs, edit a cell, and download an export."""
    live.user("dan", shop="deployer", blog="viewer")

    async def visit() -> None:
        async with chromium() as page:
            size = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            await page.call("Emulation.setDeviceMetricsOverride", **size)
            for domain in ("Network", "Runtime", "Page", "Log"):
                await page.call(f"{domain}.enable")
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=RECEIVED)
            behavior = {"behavior": "allow", "downloadPath": str(tmp_path)}
            await page.call("Browser.setDownloadBehavior", **behavior)
            await page.call("Page.navigate", url=f"{live.url}/console/")
            await page.until("document.activeElement?.name === 'user'")
            await shown(page, "login")
            await typed(page, "dan")
            await key(page, "Tab", 9)
            await page.until("document.activeElement?.name === 'password'")
            await typed(page, "wrong")
            await key(page, "Enter", 13, text="\r")
            await page.until("document.querySelector('.error')?.textContent.includes('is wrong')")
            await shown(page, "wrong")
            page.events.clear()
            await page.until("document.activeElement?.name === 'password'")
            await typed(page, PASSWORD)
            await key(page, "Enter", 13, text="\r")
            await page.until("document.querySelectorAll('.projects a').length === 2")
            await shown(page, "projects")
            await page.value("document.querySelectorAll('.projects a')[1].click()")
            await page.until("window.received?.includes('● live')")
            await page.until("document.activeElement?.classList.contains('xterm-helper-textarea')")
            await page.until("window.received.includes('ready')")
            await shown(page, "board")
            await click(page, 846, 10)
            await page.until("window.received.includes('no rows')")
            await page.press("a")
            await page.until("pending === 1")
            await page.press("e")
            await page.until("window.received.includes('Default')")
            await typed(page, "Grace")
            await key(page, "Enter", 13, text="\r")
            await page.until("window.received.includes('Grace')")
            await shown(page, "edited")
            await key(page, "s", 83, modifiers=2)
            await page.until("pending === 0")
            await page.press("x")
            await page.until("window.received.includes('Export the table')")
            await key(page, "s", 83, modifiers=2)
            await asyncio.to_thread(until, lambda: (tmp_path / "people.csv").exists(), SECONDS)
            await page.until("window.received.includes('your browser downloads people.csv')")
            await shown(page, "exported")
            await page.press("3")
            await page.until("window.received.includes('Filter')")
            await asyncio.to_thread(live.get, "/a-page", "", "web--shop.localhost")
            await page.until("window.received.includes('/a-page')")
            await shown(page, "logs")
            troubles = [
                event["params"]
                for event in page.events
                if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
                and event["params"].get("entry", {}).get("level") != "warning"
            ]
            assert troubles == []
            await page.press("q")
            await page.until("document.body.classList.contains('-closed')")
            await shown(page, "ended")

    asyncio.run(visit())
    assert (tmp_path / "people.csv").read_text() == "id,name,photo\n1,Grace,\n"
