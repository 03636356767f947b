"""`svc serve` with accounts: claimed, killed at any time, and restarted."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from engine.errors import SvcError
from svc_tui.client import Client
from tests.svc_tui.hosted import Hosted

pytestmark = pytest.mark.slow

PASSWORD = "a horse on a staple"


class Serving:
    """A service as a process; `code` is the claim code, or empty if it is claimed."""

    def __init__(self, data: Path) -> None:
        arguments = ("serve", "--data", str(data), "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "svc_tui", *arguments],
            stdout=subprocess.PIPE,
            stderr=(said := (data.parent / "stderr").open("w+")),
            text=True,
        )
        assert self.process.stdout is not None
        found = re.search(r"http://127.0.0.1:\d+", self.process.stdout.readline())
        said.seek(0)
        log = [json.loads(line)["text"] for line in said]
        said.close()
        assert found, log
        self.url = found[0]
        codes = [line.rpartition(" ")[2] for line in log if "claim it" in line]
        self.code = codes[0] if codes else ""

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@contextmanager
def serving(data: Path) -> Iterator[Serving]:
    service = Serving(data)
    try:
        yield service
    finally:
        service.kill()


def svc(home: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "svc_tui", *arguments],
        env=os.environ | {"SVC_HOME": str(home), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"},
        cwd=home,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_owner_and_session_survive_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        arguments = ("login", service.url, "-u", "ann", "--claim", service.code, "--password-stdin")
        done = svc(tmp_path, *arguments, stdin=PASSWORD)
        assert done.returncode == 0, done.stderr
        token = json.loads((tmp_path / "sessions.json").read_text())["services"][service.url]["token"]
        assert svc(tmp_path, "whoami").returncode == 0
    assert svc(tmp_path, "whoami").returncode == 3
    with serving(tmp_path / "data") as again, Client(again.url, token) as client:
        assert again.code == "" and client.call("GET", "/v1/whoami")["user"] == "ann"


def test_service_killed_during_a_claim_has_at_most_one_owner(tmp_path: Path) -> None:
    chance = random.Random(7)
    for number in range(4):
        data = tmp_path / str(number) / "data"
        data.parent.mkdir()
        with serving(data) as service:
            claims = [
                threading.Thread(target=_claim, args=(service.url, service.code, f"user{each}"))
                for each in range(3)
            ]
            for claim in claims:
                claim.start()
            claims[0].join(chance.uniform(0, 0.6))
        for claim in claims:
            claim.join()
        with Hosted(data) as again:
            codes = [line.rpartition(" ")[2] for line in again.said if "claim it" in line]
            with Client(again.control, "") as client:
                claimed = client.call("GET", "/v1/claim")["claimed"]
            assert claimed == (not codes)
            opened = [_login(again.control, f"user{each}") for each in range(3)]
            assert opened.count(True) == int(claimed)
            if not claimed:
                assert _claim(again.control, codes[0], "late")


def _claim(url: str, code: str, user: str) -> bool:
    return _sent(url, "/v1/claim", {"code": code, "user": user, "password": PASSWORD})


def _login(url: str, user: str) -> bool:
    return _sent(url, "/v1/login", {"user": user, "password": PASSWORD})


def _sent(url: str, path: str, body: dict[str, str]) -> bool:
    with Client(url, "") as client, suppress(SvcError):
        return bool(client.call("POST", path, body)["token"])
    return False
