"""`svc logs` of a deployment: the real client and a real service."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.timeline.record import Document, LineRecord
from engine.timeline.recorder import TimelineStore
from svc_tui.client import Client, Unreachable
from svc_tui.client.credentials import Credentials
from svc_tui.logs import remote_pages
from tests.support.waiting import until
from tests.svc_tui.hosted import MANIFEST, Hosted, deploy, static_shop

ALL: dict[str, Any] = {}
MINUTE_NS = 60_000_000_000


class Enough(Exception):
    """Ends a follower."""


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    root = tmp_path / "shop"
    (root / "site").mkdir(parents=True)
    (root / "svc.toml").write_text(MANIFEST)
    hosted = Hosted(tmp_path / "data ü")
    with hosted.claim() as client:
        deploy(client, root)
    yield hosted
    hosted.stop()


def write(hosted: Hosted, *texts: str, ago_ns: int = 0) -> None:
    now = time.time_ns() - ago_ns
    store = TimelineStore(hosted.data / "projects" / "shop" / "timeline.db")
    store.append([LineRecord(now, "", "web", "stdout", text) for text in texts], now)
    store.close()


class Reader:
    """Return the output of `svc logs`; a follower ends at the text `enough`."""

    def __init__(self, hosted: Hosted, payload: dict[str, Any], enough: str = "") -> None:
        self.shown: list[Document] = []
        self.dropped: list[int] = []
        self._enough = enough
        login = Credentials("key", hosted.control, token=hosted.token)
        self._pages = remote_pages(login, "shop", **{"filters": {}, **payload})

    @property
    def texts(self) -> list[str]:
        return [entry["body"] for entry in self.shown if entry["kind"] == "stdout"]

    def run(self) -> list[str]:
        for page in self._pages:
            self.shown += page.entries
            self.dropped += [page.dropped] if page.dropped else []
            if self._enough in self.texts[-1:]:
                raise Enough
        return self.texts


def test_remote_logs_with_contradicting_options_fails(hosted: Hosted) -> None:
    write(hosted, "1", "2", ago_ns=20 * MINUTE_NS)
    write(hosted, "3", "4")
    reader = Reader(hosted, ALL)
    assert reader.run() == ["1", "2", "3", "4"]
    first, third = reader.shown[0]["cursor"], reader.shown[2]["cursor"]
    assert Reader(hosted, {"filters": {"since": 600, "after": first}}).run() == ["3", "4"]
    assert Reader(hosted, {"filters": {"since": 600, "after": third}}).run() == ["4"]
    assert Reader(hosted, {"tail": 3, "filters": {"after": first}}).run() == ["2", "3", "4"]
    assert Reader(hosted, {"filters": {"until": 600}}).run() == ["1", "2"]
    assert Reader(hosted, {"filters": {"until": 600}, "tail": 1}).run() == ["2"]


def test_records_of_a_service_have_its_region(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")
    with Hosted(tmp_path / "data", region="eu-1") as hosted, hosted.claim() as client:
        deploy(client, root)
        assert hosted.get().status_code == 200
        path = "/v1/projects/shop/logs/window"
        until(lambda: any(each["kind"] == "request" for each in client.call("GET", path)["records"]))
        assert {each["region"] for each in client.call("GET", path)["records"]} == {"eu-1"}
        select = {"sql": "select distinct region from requests"}
        assert client.call("POST", "/v1/projects/shop/logs/sql", select)["rows"] == [{"region": "eu-1"}]


def test_remote_follow_with_tail_0_prints_only_new_records(hosted: Hosted) -> None:
    write(hosted, "old", "old")
    reader, ended = Reader(hosted, {"tail": 0, "follow": True}, "new"), threading.Event()

    def write_repeatedly() -> None:
        while not ended.wait(0.05):
            write(hosted, "new")

    writer = threading.Thread(target=write_repeatedly)
    writer.start()
    try:
        with pytest.raises(Enough):
            reader.run()
    finally:
        ended.set()
        writer.join()
    assert reader.texts == ["new"]


def test_remote_cursor_of_an_older_file_misses_nothing(hosted: Hosted) -> None:
    write(hosted, "1")
    reader = Reader(hosted, ALL)
    reader.run()
    before = {"filters": {"after": reader.shown[0]["cursor"] - 1_000_000}}
    reader = Reader(hosted, before)
    assert reader.run() == ["1"] and reader.dropped == []


def test_remote_follow_of_an_unreachable_service_fails(hosted: Hosted) -> None:
    hosted.stop()
    for payload in (ALL, {"follow": True}, {"follow": True, "tail": 3}):
        with pytest.raises(Unreachable):
            Reader(hosted, payload).run()


@pytest.mark.slow
def test_remote_follow_ends_when_the_pipe_closes(hosted: Hosted, tmp_path: Path) -> None:
    write(hosted, "hello")
    follower = subprocess.Popen(
        [sys.executable, "-m", "svc_tui", "logs", "-f", "--service"],
        cwd=tmp_path / "shop",
        env=os.environ | {"SVC_URL": hosted.control, "SVC_TOKEN": hosted.token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with follower:
        assert follower.stdout is not None and follower.stderr is not None
        assert "hello" in follower.stdout.readline()
        follower.stdout.close()
        assert follower.wait(60) == 0
        assert "rror" not in follower.stderr.read()


@pytest.mark.slow
def test_remote_follow_ends_when_the_token_is_revoked(hosted: Hosted, tmp_path: Path) -> None:
    write(hosted, "hello")
    with Client(hosted.control, hosted.token) as owner:
        body = {"name": "ci", "role": "viewer", "projects": ["shop"], "days": 1}
        token = owner.call("POST", "/v1/tokens", body)["token"]
        follower = subprocess.Popen(
            [sys.executable, "-m", "svc_tui", "logs", "-f", "--service"],
            cwd=tmp_path / "shop",
            env=os.environ | {"SVC_URL": hosted.control, "SVC_TOKEN": token},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with follower:
            assert follower.stdout is not None and follower.stderr is not None
            assert "hello" in follower.stdout.readline()
            owner.call("DELETE", "/v1/tokens/ci")
            assert follower.wait(60) == 3
            assert "rejected SVC_TOKEN: expired, revoked" in follower.stderr.read()
