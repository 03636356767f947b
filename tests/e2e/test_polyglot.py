"""`sample-apps/polyglot`: the same guest in three languages.

Tests with the fixture `polyglot` run on one machine and on a fleet, others on `svc dev`.
"""

import asyncio
import http.client
import json
import os
import random
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import chromium
from tests.support.dev_server import dev_server, save
from tests.support.hosting import Host, Hosted, host
from tests.support.samples import copied_sample
from tests.support.waiting import arrived_singly

pytestmark = pytest.mark.slow
LANES = ("js", "go", "rust")
KIND = "application/x-polyglot"
TYPES = {"js": "StarlingMonkey", "go": "go1.", "rust": "none"}
# Where each program fails: the file, what fails there, and how a stack names the place.
FAILS = {
    "js": ("js/src/index.js", "throw new Error(", r"js/src/index\.js:{}:\d+"),
    "go": ("go/main.go", 'panic("', r"/main\.go:{}\b"),
    "rust": ("rust/src/lib.rs", "panic!(", r"src/lib\.rs:{}:\d+"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory, rust_toolchain: None) -> Path:
    return copied_sample("polyglot", tmp_path_factory.mktemp("süß"))


@pytest.fixture(scope="module", params=["dev", pytest.param("fleet", marks=pytest.mark.nightly)])
def polyglot(
    request: pytest.FixtureRequest, copy: Path, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    """A host for all tests."""
    with host(request.param, copy, home, tmp_path_factory.mktemp("nodes")) as running:
        yield running


def check_hello(server: Host, lane: str) -> None:
    answer = server.get(f"/{lane}/hello")
    assert answer.status_code == 200, answer.text
    hello = answer.json()
    assert hello.pop("message").startswith("Hello from ")
    assert hello.pop("runtime").startswith(TYPES[lane])
    assert hello.pop("request") == answer.headers["x-request-id"]
    assert hello == {"lane": lane, "method": "GET", "path": f"/{lane}/hello"}


def posted(server: Host, lane: str, *fields: str) -> bytes:
    """Return the head of a request to the echo route."""
    lines = [f"POST /{lane}/echo HTTP/1.1", f"host: {server.authority}", *fields, "", ""]
    return "\r\n".join(lines).encode()


def echoed(server: Host, lane: str, body: bytes) -> tuple[str | None, bytes]:
    """Send a body and read the response concurrently, as an echo in constant memory requires."""
    head = posted(server, lane, f"content-type: {KIND}", f"content-length: {len(body)}")
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        sending = threading.Thread(target=connection.sendall, args=(head + body,), daemon=True)
        sending.start()
        with http.client.HTTPResponse(connection) as answer:
            answer.begin()
            assert answer.status == 200
            received = answer.read()
            sending.join(5)
            return answer.getheader("content-type"), received


def check_failure_position(server: Host, project: Path, lane: str) -> None:
    name, what, place = FAILS[lane]
    line = 1 + (project / name).read_text().partition(what)[0].count("\n")
    before = len(server.lines)
    answer = server.get(f"/{lane}/fail")
    assert (answer.status_code, answer.json()["code"]) == (500, "guest-failed")
    assert answer.headers["content-type"] == "application/problem+json"
    assert isinstance(server, Hosted) or "on purpose" in answer.json()["detail"]
    server.wait_for(rf"/{lane}/fail .*500 .*guest-failed", after=before)
    server.wait_for(f"WARN .*about to fail lane={lane}", after=before)
    server.wait_for(place.format(line), after=before)


@pytest.mark.parametrize("lane", LANES)
def test_hello_is_answered_and_logged(polyglot: Host, lane: str) -> None:
    before = len(polyglot.lines)
    check_hello(polyglot, lane)
    polyglot.wait_for(f"INFO .*hello lane={lane} method=GET path=/{lane}/hello", after=before)


@pytest.mark.parametrize("lane", LANES)
def test_echo_returns_the_upload(polyglot: Host, lane: str) -> None:
    body = random.Random(lane).randbytes(3_000_000)
    kind, received = echoed(polyglot, lane, body)
    assert kind == KIND
    assert received == body


@pytest.mark.parametrize("lane", LANES)
def test_echo_begins_before_the_end_of_the_upload(polyglot: Host, lane: str) -> None:
    with socket.create_connection(("127.0.0.1", polyglot.port), 60) as connection:
        connection.sendall(posted(polyglot, lane, "transfer-encoding: chunked"))
        received = b""
        for word in (b"first", b"second"):
            connection.sendall(b"%x\r\n%s\r\n" % (len(word), word))
            while word not in received:
                block = connection.recv(65536)
                assert block, received
                received += block


@pytest.mark.parametrize("lane", LANES)
def test_events_arrive_singly_until_the_client_disconnects(polyglot: Host, lane: str) -> None:
    before = len(polyglot.lines)
    events: list[str] = []
    times: list[float] = []
    with polyglot.stream(f"/{lane}/events", **{"last-event-id": "6"}) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        for line in stream.iter_lines():
            if line.startswith(("id: ", "data: ")):
                events.append(line)
            if line.startswith("data: "):
                times.append(time.monotonic())
            if arrived_singly(times, 0.3):
                break
            assert len(times) < 100
    expected = [(f"id: {n}", {"lane": lane, "n": n}) for n in range(7, 7 + len(times))]
    result = zip(events[::2], events[1::2], strict=True)
    assert [(first, json.loads(second[6:])) for first, second in result] == expected
    polyglot.wait_for(f"/{lane}/events .*client disconnected", after=before)


@pytest.mark.parametrize("lane", LANES)
def test_failure_names_its_line_and_affects_no_other_request(polyglot: Host, copy: Path, lane: str) -> None:
    others = [other for other in LANES if other != lane]
    with polyglot.stream(f"/{lane}/events") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        assert json.loads(next(lines)[6:])["n"] == 1
        failing = threading.Thread(target=check_failure_position, args=(polyglot, copy, lane))
        failing.start()
        for other in others:
            check_hello(polyglot, other)
        failing.join()
        check_failure_position(polyglot, copy, lane)
        assert json.loads(next(lines)[6:])["n"] == 2, "a stream of the same resource was harmed"
    for each in LANES:
        check_hello(polyglot, each)


@pytest.mark.parametrize("polyglot", ["dev"], indirect=True)
def test_save_rebuilds_only_its_resource(polyglot: Host, copy: Path) -> None:
    for lane, (name, _, _) in FAILS.items():
        before = len(polyglot.lines)
        path = copy / name
        save(path, path.read_text().replace("Hello from", "Hello again from"))
        polyglot.until(f"/{lane}/hello", lambda answer: "Hello again from" in answer.text)
        polyglot.wait_for(f"^(· )?{lane} rebuilt", after=before)
        restored = len(polyglot.lines)
        save(path, path.read_text().replace("Hello again from", "Hello from"))
        polyglot.until(f"/{lane}/hello", lambda answer: "Hello from" in answer.text)
        polyglot.wait_for(f"^(· )?{lane} rebuilt", after=restored)
        rebuilt = {
            line.split(" rebuilt")[0].strip("· ") for line in polyglot.lines[before:] if "rebuilt" in line
        }
        assert rebuilt == {lane}


def test_page_shows_three_resources_and_compares_their_echoes(polyglot: Host) -> None:
    choose = (
        "(() => { const chosen = new DataTransfer(); const input = document.querySelector('input');"
        " chosen.items.add(new File([new Uint8Array(1000003).map((_, i) => i * 7)], 'file.bin'));"
        " input.files = chosen.files; input.dispatchEvent(new Event('change')); })()"
    )
    texts = "[...document.querySelectorAll('{}')].map((one) => one.textContent)"

    async def visit() -> None:
        async with chromium() as page:
            await page.call("Runtime.enable")
            await page.call("Page.enable")
            await page.call(
                "Emulation.setDeviceMetricsOverride",
                width=1280,
                height=900,
                deviceScaleFactor=1,
                mobile=False,
            )
            await page.call("Page.navigate", url=polyglot.url + "/")
            hellos = await page.until(
                f"(() => {{ const all = {texts.format('blockquote')};"
                " return all.length === 3 && all.every((one) => one.startsWith('Hello')) && all; })()"
            )
            assert hellos == ["Hello from JavaScript.", "Hello from Go.", "Hello from Rust."]
            await page.until(
                "[...document.querySelectorAll('.ticks')].every((all) => all.querySelector('.on + .on'))"
            )
            await page.value(choose)
            echoes = await page.until(
                f"(() => {{ const all = {texts.format('.echo p.same')}; return all.length === 3 && all; }})()"
            )
            assert all(echo.startswith("1,000,003 bytes in") for echo in echoes)
            await page.value("document.querySelector('article[data-lane=go] [name=fail]').click()")
            await page.until(
                "document.querySelector('article[data-lane=go] pre').textContent.includes('guest-failed')"
            )
            if folder := os.environ.get("SVC_TEST_SCREENSHOTS"):
                import base64

                shot = await page.call("Page.captureScreenshot")
                (Path(folder) / "polyglot.png").write_bytes(base64.b64decode(shot["data"]))
            assert [event for event in page.events if event["method"] == "Runtime.exceptionThrown"] == []

    asyncio.run(visit())


def children_cpu() -> float:
    """Return the CPU seconds of ended processes of this one, which the load of the machine changes little."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("polyglot", ["dev"], indirect=True)
def test_second_build_compiles_nothing_and_release_serves_the_first(
    polyglot: Host, copy: Path, home: Path
) -> None:
    command = [sys.executable, "-m", "svc_tui", "build"]
    environ = {**os.environ, "SVC_HOME": str(home)}
    runs = []
    for _ in range(2):
        before = children_cpu()
        process = subprocess.run(command, cwd=copy, env=environ, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr
        runs.append((re.findall(r"sha256:[0-9a-f]{64}", process.stdout), children_cpu() - before))
    assert "compiling" not in process.stderr and "making" not in process.stderr
    assert process.stdout.count("unchanged") == 4
    assert runs[1][1] < 10
    assert len(runs[0][0]) == 4 and runs[0][0] == runs[1][0]
    with dev_server(copy, home, "--release") as server:
        body = random.Random(0).randbytes(300_000)
        for lane in LANES:
            check_hello(server, lane)
            assert echoed(server, lane, body) == (KIND, body)
            check_failure_position(server, copy, lane)
