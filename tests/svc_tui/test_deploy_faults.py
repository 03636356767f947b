"""Deploys whose disk is full or read-only, whose clock jumps, and whose service is killed at any step."""

import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from doors.tables.api.file_routes import MAX_TRANSFERS
from engine.control.streaming_body import IDLE_TIMEOUT_SECONDS
from engine.errors import SvcError
from engine.files import reserve
from svc_tui.client import Client
from tests.support.examples import is_fuzzing
from tests.support.full_disk import on_small_disk
from tests.svc_tui.hosted import PASSWORD, Hosted, deploy, static_shop

ROOT = Path(__file__).resolve().parents[2]
DAY_NS = 24 * 3600 * 10**9


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(1800)
def test_kill_between_steps_of_concurrent_deploys_leaves_one_whole_version(tmp_path: Path) -> None:
    first, distance = (1, 1) if is_fuzzing() else (40, 40)
    command = [sys.executable, "-m", "tests.svc_tui.killed_deploys", str(tmp_path), str(first), str(distance)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    match = re.fullmatch(r"kills=(\d+)\n", process.stdout)
    assert match, process.stdout + process.stderr
    assert int(match[1]) * distance >= 40


@pytest.mark.slow
def test_full_disk_at_any_step_of_a_deploy_leaves_the_live_version(tmp_path: Path) -> None:
    on_small_disk("tests.svc_tui.full_disk_deploys", tmp_path, "data", 16)


@pytest.mark.slow
@pytest.mark.fuzz
def test_disk_that_fails_at_any_step_leaves_one_version_and_all_rows(tmp_path: Path) -> None:
    first, distance = ("1", "1") if is_fuzzing() else ("7", "23")
    command = [sys.executable, "-m", "tests.svc_tui.failing_disk", str(tmp_path), first, distance]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"whole, after [1-9][0-9]* failures\n", process.stdout), (
        process.stdout + process.stderr
    )


def test_slow_uploads_and_imports_delay_no_other_request(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    uploads = [f"PUT /v1/projects/shop/blobs/{number:064}?size=1000&offset=0" for number in range(60)]
    imports = ["POST /v1/projects/shop/import?format=csv&table=t"] * MAX_TRANSFERS
    table = {"sql": "create table t (id integer primary key)"}
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client, ExitStack() as clients:
        deploy(client, root)
        client.call("POST", "/v1/projects/shop/sql", {**table, "write": True})
        address = hosted.control.removeprefix("http://").split(":")
        slow = []
        for line in (*uploads, *imports):
            slow.append(clients.enter_context(socket.create_connection((address[0], int(address[1])), 30)))
            head = f"{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {hosted.token}\r\n"
            slow[-1].sendall(f"{head}content-length: 1000\r\n\r\ni".encode())
        began = time.monotonic()
        for version in ("two", "three"):
            for each in slow:
                each.sendall(b"d")
            (root / "site" / "index.html").write_text(version)
            deploy(client, root)
            insert = {"sql": "insert into t default values", "write": True}
            client.call("POST", "/v1/projects/shop/sql", insert)
            assert hosted.get().text == version
        assert time.monotonic() - began < IDLE_TIMEOUT_SECONDS / 2
        with pytest.raises(SvcError, match="imports and exports of the project are in progress"):
            params = {"format": "csv", "table": "t"}
            list(client.lines("POST", "/v1/projects/shop/import", params=params, content=iter([b"id\n"])))


def test_damaged_log_of_the_records_is_reported_at_start(tmp_path: Path) -> None:
    """The copy is one as a kill leaves it. What was committed before the damage is served."""
    root = static_shop(tmp_path / "shop")
    killed = tmp_path / "killed"
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        for text in ("one", "two"):
            (root / "site" / "index.html").write_text(text)
            deploy(client, root)
        shutil.copytree(hosted.data, killed)
    log = killed / "control.db-wal"
    content = bytearray(log.read_bytes())
    content[-20_000] ^= 1
    log.write_bytes(content)
    (killed / "control.db-shm").unlink()
    for reports in (1, 0):
        with Hosted(killed) as hosted:
            lost = [line for line in hosted.output if "committed transactions after the damage" in line]
            assert len(lost) == reports, hosted.output
            assert hosted.get().text in ("one", "two")


def test_uploads_and_imports_leave_the_reserve_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = static_shop(tmp_path / "shop")
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, root)
        (root / "site" / "index.html").write_text("two")
        monkeypatch.setattr(reserve, "RESERVE_SHARE", 1.0)
        monkeypatch.setattr(reserve, "MAX_RESERVE_BYTES", 1 << 60)
        with pytest.raises(SvcError, match=r"of the disk are free, and [0-9]+ MiB are reserved"):
            deploy(client, root)
        assert not list((hosted.data / "uploads").iterdir())
        with pytest.raises(SvcError, match=r"cannot store the uploaded file: only [0-9]+ MiB"):
            params = {"format": "csv", "table": "users", "create": True}
            path = "/v1/projects/shop/import"
            list(client.lines("POST", path, params=params, content=iter([b"a,b"])))
        assert hosted.get().text == "one"
        monkeypatch.undo()
        deploy(client, root)
        assert hosted.get().text == "two"


def test_clock_jumps_change_neither_deployments_nor_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = static_shop(tmp_path / "shop")
    clock = {"offset": 0}
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + clock["offset"] / 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + clock["offset"])
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, root)
        for days in (400, -800, 0):
            clock["offset"] = days * DAY_NS
            (root / "site" / "index.html").write_text(f"{days} days")
            with Client(hosted.control, "") as stranger:
                login = stranger.call("POST", "/v1/login", {"user": "ann", "password": PASSWORD})
            with Client(hosted.control, login["token"]) as client:
                before = deploy(client, root)["deployment"]["id"]
                assert client.call("POST", "/v1/gc", {})["unpacked"] >= 0
                assert hosted.get().text == f"{days} days"
                history = client.call("GET", "/v1/projects/shop/deployments")
                assert history["activations"][0]["deployment"] == before
                for path in ("state", "usage", "logs/window"):
                    client.call("GET", f"/v1/projects/shop/{path}")
        assert not [line for line in hosted.output if "internal" in line]
    with Hosted(tmp_path / "data") as hosted:
        assert hosted.get().text == "0 days"
