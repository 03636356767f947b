"""`svc usage` shows the requests of `svc dev`: live, afterwards, and with two servers at once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.dev_server import dev_server

pytestmark = pytest.mark.slow
WITHIN_SECONDS = 20


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop ü"
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "index.html").write_text("hello\n")
    (folder / "svc.toml").write_text(
        '[project]\nname = "shop"\n[resource.front]\nlane = "static"\npublic = true\noutput = "site"\n'
    )
    return folder


def used(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "svc_tui", "usage", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {row["resource"]: row for row in json.loads(done.stdout)["rows"]}


def until_counted(folder: Path, requests: int) -> dict[str, Any]:
    end = time.monotonic() + WITHIN_SECONDS
    while (rows := used(folder)).get("front", {"requests": 0})["requests"] < requests:
        assert time.monotonic() < end, rows
    return rows


def test_usage_reports_counts_during_and_after_dev(shop: Path, home: Path) -> None:
    assert used(shop) == {}
    with dev_server(shop, home) as one, dev_server(shop, home) as two:
        for _ in range(5):
            assert one.get("/").status_code == two.get("/").status_code == 200
        row = until_counted(shop, 10)["front"]
        assert (row["requests"], row["failures"], row["bytes_out"]) == (10, 0, 60)
        assert one.get("/missing").status_code == 404
        until_counted(shop, 11)
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait()
        assert two.get("/").status_code == 200
        assert two.stop() == 0
    assert used(shop)["front"]["requests"] == 12
