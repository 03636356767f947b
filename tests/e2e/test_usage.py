"""`svc usage` shows the requests of `svc dev`: live, afterwards, and with two servers at once."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svc_tui.main import run
from tests.support.dev_server import dev_server

pytestmark = pytest.mark.slow
WITHIN_SECONDS = 60


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop ü"
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "index.html").write_text("hello\n")
    (folder / "svc.toml").write_text(
        '[project]\nname = "shop"\n[resource.front]\nlane = "static"\npublic = true\noutput = "site"\n'
    )
    return folder


Used = Callable[[], dict[str, Any]]


@pytest.fixture
def used(shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Used:
    """Return the rows of `svc usage` by resource."""
    monkeypatch.chdir(shop)

    def usage() -> dict[str, Any]:
        capsys.readouterr()
        assert run(["usage", "--json"]) == 0
        return {row["resource"]: row for row in json.loads(capsys.readouterr().out)["rows"]}

    return usage


def until_counted(used: Used, requests: int) -> dict[str, Any]:
    end = time.monotonic() + WITHIN_SECONDS
    while (rows := used()).get("front", {"requests": 0})["requests"] < requests:
        assert time.monotonic() < end, rows
        time.sleep(0.02)
    return rows


def test_usage_reports_counts_during_and_after_dev(shop: Path, home: Path, used: Used) -> None:
    assert used() == {}
    with dev_server(shop, home) as one, dev_server(shop, home) as two:
        for _ in range(5):
            assert one.get("/").status_code == two.get("/").status_code == 200
        row = until_counted(used, 10)["front"]
        assert (row["requests"], row["failures"], row["bytes_out"]) == (10, 0, 60)
        assert one.get("/missing").status_code == 404
        until_counted(used, 11)
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait()
        assert two.get("/").status_code == 200
        assert two.stop() == 0
    assert used()["front"]["requests"] == 12
