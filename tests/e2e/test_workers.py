"""`svc dev --workers 2`: two processes that serve the same project."""

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from engine.control.discovery import find_endpoint
from svc_tui.client import ApiError, Client
from tests.e2e.test_dev import edit
from tests.support.dev_server import DevServer, dev_server
from tests.support.waiting import until

pytestmark = pytest.mark.slow
CONNECTIONS = 24


@pytest.fixture(scope="module")
def pulse(pulse_project: Path, home: Path) -> Iterator[DevServer]:
    """A server for all tests but one; the last of them stops it."""
    with dev_server(pulse_project, home, "--workers", "2") as server:
        yield server


def workers(server: DevServer) -> list[int]:
    process = subprocess.run(
        ["pgrep", "-P", str(server.process.pid), "-f", "svc_tui.worker"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(number) for number in process.stdout.split()]


def answers(server: DevServer, path: str) -> list[httpx.Response]:
    """Send requests on enough connections to reach each worker."""
    return [httpx.get(server.url + path, timeout=60) for _ in range(CONNECTIONS)]


def test_control_api_has_the_requests_of_both_workers(pulse: DevServer, pulse_project: Path) -> None:
    ids = [answer.headers["x-request-id"] for answer in answers(pulse, "/api/now")]
    presence = find_endpoint(pulse_project / ".svc")
    assert presence is not None
    with Client(presence.url, presence.token) as client:
        until(lambda: sorted(stored(client, ids)) == sorted(ids))
        state = client.call("GET", "/v1/projects/pulse/state")
        mount = next(each for each in state["mounts"] if each["pattern"] == "/api/*")
        assert mount["requests"] * state["seconds"] == pytest.approx(CONNECTIONS, rel=0.1)
        second = client.call("POST", f"/v1/projects/pulse/requests/{ids[0]}/replay")
        assert second["response"]["status"] == 200 and second["replay_of"] == ids[0]


def stored(client: Client, ids: list[str]) -> list[str]:
    """Return which of these requests are recorded so far."""
    result = []
    for each in ids:
        with suppress(ApiError):
            result.append(client.call("GET", f"/v1/projects/pulse/requests/{each}")["request_id"])
    return result


def test_requests_to_both_workers_are_logged(pulse: DevServer) -> None:
    assert len(workers(pulse)) == 2
    got = answers(pulse, "/api/now")
    assert {answer.status_code for answer in got} == {200}
    for answer in got:
        pulse.wait_for(answer.headers["x-request-id"])


def test_save_is_served_by_both_workers_at_once(pulse: DevServer, pulse_project: Path) -> None:
    before = len(pulse.lines)
    edit(pulse_project / "api" / "src" / "index.js", "Response.json({", "Response.json({ mark: 'one',")
    pulse.wait_for("api rebuilt|api builds again", after=before)
    assert {answer.json().get("mark") for answer in answers(pulse, "/api/now")} == {"one"}
    edit(pulse_project / "svc.toml", '"/api/*" = "api"', '"/now/*" = "api"')
    until(lambda: {answer.status_code for answer in answers(pulse, "/api/now")} == {404})
    edit(pulse_project / "svc.toml", '"/now/*" = "api"', '"/api/*" = "api"')
    until(lambda: {answer.status_code for answer in answers(pulse, "/api/now")} == {200})


def test_killed_worker_is_replaced_and_no_connection_is_refused(pulse: DevServer) -> None:
    first = workers(pulse)
    assert httpx.get(pulse.url + "/api/now", timeout=60).status_code == 200
    os.kill(first[0], signal.SIGKILL)
    pulse.wait_for("ended by signal 9; starting another")
    assert {answer.status_code for answer in answers(pulse, "/api/now")} == {200}
    assert len(workers(pulse)) == 2 and first[0] not in workers(pulse)


def test_stop_ends_the_workers(pulse: DevServer) -> None:
    ends_its_workers(pulse, signal.SIGTERM, 0)


def test_kill_ends_the_workers(project: Path, home: Path) -> None:
    with dev_server(project, home, "--workers", "2") as server:
        ends_its_workers(server, signal.SIGKILL, -signal.SIGKILL)


def ends_its_workers(server: DevServer, number: int, status: int) -> None:
    """Signal a server with an open stream, and wait for its exit status and the end of its workers."""
    assert httpx.get(server.url + "/api/now", timeout=60).status_code == 200
    started = [os.pidfd_open(worker) for worker in workers(server)]
    assert len(started) == 2
    with httpx.stream("GET", server.url + "/api/events", timeout=60) as events:
        assert next(events.iter_lines())
        assert server.stop(number) == status
        for worker in started:
            assert select.select([worker], [], [], 60)[0], "a worker still runs"
            os.close(worker)
