"""`svc logs` shows the requests of `svc dev`: live, across a restart, and afterwards."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from svc_tui.main import run
from tests.support.dev_server import dev_server

pytestmark = pytest.mark.slow
WITHIN_SECONDS = 60
COMMAND = [sys.executable, "-m", "svc_tui", "logs"]
GUEST = """
export default {
  async fetch(request, env) {
    console.log('printed \\u001b[31mred');
    console.error('complained');
    await fetch(env.SVC_TELEMETRY_ENDPOINT + '/v1/logs', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords: [{
        severityNumber: 13, body: { stringValue: 'logged' },
        attributes: [{ key: 'path', value: { stringValue: new URL(request.url).pathname } }],
      }] }] }] }) + ' '.repeat(100_000),  // Large bodies are taken in a thread.
    });
    return new Response('hello');
  },
};
"""
MANIFEST = """
[project]
name = "shop"
[resource.front]
lane = "static"
public = true
output = "site"
mounts = { "/api/*" = "api" }
[resource.api]
lane = "js"
entry = "api.js"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop ü"
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "index.html").write_text("hello\n")
    (folder / "api.js").write_text(GUEST)
    (folder / "svc.toml").write_text(MANIFEST)
    return folder


class Follower:
    """A running `svc logs -f --json`; its documents are put into a queue."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "-f", "--json", *options], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        self.records: list[dict[str, Any]] = []
        self._rows: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._rows.put(line)

    def until_request(self, request_id: str) -> None:
        """Read documents up to the end of a request."""
        while not self.records or (self.records[-1]["request_id"], self.records[-1].get("root")) != (
            request_id,
            True,
        ):
            self.records.append(json.loads(self._rows.get(timeout=WITHIN_SECONDS)))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def follower(shop: Path) -> Iterator[Follower]:
    running = Follower(shop)
    yield running
    running.end()


Shown = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def shown(shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Run `svc logs --json` with more options in the test process."""

    def logs(*options: str) -> list[dict[str, Any]]:
        monkeypatch.chdir(shop)
        capsys.readouterr()
        assert run(["logs", "--json", *options]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return logs


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.nightly)])
def test_logs_follow_prints_requests_across_restarts(
    shop: Path, home: Path, follower: Follower, shown: Shown, workers: str
) -> None:
    requests = []
    for round_ in range(3):
        with dev_server(shop, home, "--workers", workers) as server:
            for number in range(3):
                answer = server.get(f"/api/{round_}/{number}")
                assert answer.text == "hello"
                requests.append(answer.headers["x-request-id"])
            follower.until_request(requests[-1])
            if round_ == 1:
                server.process.kill()
                server.process.wait()
            else:
                assert server.stop() == 0
    of_requests = [row for row in follower.records if row["request_id"]]
    if workers == "1":
        assert [row["request_id"] for row in of_requests if row.get("root")] == requests
    for request_id in requests:
        rows = [row for row in of_requests if row["request_id"] == request_id]
        assert sorted(row["kind"] for row in rows) == [*["request"] * 2, "stderr", "stdout", "structured"]
        by = {row["kind"]: row for row in rows}
        assert by["stdout"]["body"] == "printed \x1b[31mred"
        assert by["stderr"]["body"] == "complained"
        assert (by["structured"]["level"], by["structured"]["body"]) == ("WARN", "logged")
        inner, root = (row for row in rows if row["kind"] == "request")
        assert by["structured"]["attributes"]["path"] == root["target"]
        assert by["structured"]["span_id"] == inner["span_id"]
        assert (inner["resource"], root["resource"], inner["parent"]) == ("api", "front", root["span_id"])
        assert inner["compute_ns"] > 0 and inner["peak_memory"] > 0
        assert shown("--request", request_id) == rows
    cursors = [row["cursor"] for row in follower.records]
    assert cursors == sorted(set(cursors))
    assert shown("--since", "1d") == follower.records
    assert shown("--after", str(cursors[6])) == follower.records[7:]
    if workers == "1":
        ends_piped_to_head(shop)


def ends_piped_to_head(shop: Path) -> None:
    pipe = f'"{sys.executable}" -m svc_tui logs -f --grep ^GET | head -1; echo "${{PIPESTATUS[0]}}"'
    process = subprocess.run(
        ["bash", "-c", pipe], cwd=shop, capture_output=True, text=True, timeout=WITHIN_SECONDS, check=True
    )
    request, status = process.stdout.splitlines()
    assert "GET" in request and status == "0" and process.stderr == ""


def test_dev_continues_with_a_corrupt_timeline(shop: Path, home: Path, shown: Shown) -> None:
    (shop / ".svc").mkdir()
    (shop / ".svc" / "timeline.db").write_bytes(b"rubbish" * 1000)
    with dev_server(shop, home) as server:
        assert server.get("/").status_code == 200
        server.wait_for("is corrupt.*; a new file was created", WITHIN_SECONDS)
        assert server.get("/").status_code == 200
        assert server.stop() == 0
    assert [row["target"] for row in shown() if row["kind"] == "request"] == ["/", "/"]


def test_dev_continues_with_a_timeline_of_a_newer_svc(shop: Path, home: Path) -> None:
    (shop / ".svc").mkdir()
    path = shop / ".svc" / "timeline.db"
    newer = apsw.Connection(str(path))
    newer.execute("pragma user_version = 99")
    newer.close()
    before = path.read_bytes()
    with dev_server(shop, home) as server:
        assert server.get("/").status_code == 200
        server.wait_for("was written by a newer svc", WITHIN_SECONDS)
        assert server.get("/").status_code == 200
        assert server.stop() == 0
    assert path.read_bytes() == before
    process = subprocess.run(COMMAND, cwd=shop, capture_output=True, text=True, check=False)
    assert process.returncode == 1 and "newer svc" in process.stderr


def test_two_dev_servers_record_requests_and_builds_in_one_timeline(
    shop: Path, home: Path, shown: Shown
) -> None:
    (shop / "api.js").write_text("export default {\n")
    with dev_server(shop, home) as one, dev_server(shop, home) as two:
        request_ids = [(one, two)[number % 2].get("/").headers["x-request-id"] for number in range(20)]
        assert one.get("/api/").status_code == 503
        assert one.stop() == two.stop() == 0
    rows = shown("--tail", "1000")
    requests = [row for row in rows if row["kind"] == "request"]
    assert sorted(row["request_id"] for row in requests if row["target"] == "/") == sorted(request_ids)
    built = {row["resource"]: (row["level"], row["body"]) for row in rows if row["kind"] == "platform"}
    assert built["front"][0] == "INFO" and built["front"][1].startswith("built in ")
    assert built["api"][0] == "ERROR" and built["api"][1].startswith(
        "api.js:2:1  Expected identifier but found"
    )
