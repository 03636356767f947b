"""`svc serve` with accounts: claimed, killed at any time, and restarted."""

import json
import os
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from engine.errors import SvcError
from svc_tui.client import Client
from tests.support.service import PASSWORD, Server, environ_of, run
from tests.svc_tui.hosted import Hosted

pytestmark = pytest.mark.slow


@contextmanager
def serving(data: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Server]:
    """Serve a data folder, and kill the service at the end."""
    server = Server(data, environ)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def test_owner_and_session_survive_a_kill(tmp_path: Path) -> None:
    environ = environ_of(home := tmp_path / "home")
    with serving(tmp_path / "data", environ) as server:
        arguments = ("login", server.control, "-u", "ann", "--claim", server.code(), "--password-stdin")
        login = run(home, environ, *arguments, text=PASSWORD)
        assert login.returncode == 0, login.stderr
        token = json.loads((home / "sessions.json").read_text())["services"][server.control]["token"]
        assert run(home, environ, "whoami").returncode == 0
    assert run(home, environ, "whoami").returncode == 3
    with serving(tmp_path / "data", environ) as restarted, Client(restarted.control, token) as client:
        assert (
            client.call("GET", "/v1/claim")["claimed"] and client.call("GET", "/v1/whoami")["user"] == "ann"
        )


def test_service_killed_during_a_claim_has_at_most_one_owner(tmp_path: Path) -> None:
    chance = random.Random(7)
    for number in range(4):
        data = tmp_path / str(number) / "data"
        data.parent.mkdir()
        with serving(data) as server:
            arguments = (server.control, server.code())
            claims = [threading.Thread(target=_claim, args=(*arguments, f"user{each}")) for each in range(3)]
            for claim in claims:
                claim.start()
            claims[0].join(chance.uniform(0, 0.6))
        for claim in claims:
            claim.join()
        with Hosted(data) as restarted:
            codes = [line.rpartition(" ")[2] for line in restarted.output if "claim it" in line]
            with Client(restarted.control, "") as client:
                claimed = client.call("GET", "/v1/claim")["claimed"]
            assert claimed == (not codes)
            opened = [_login(restarted.control, f"user{each}") for each in range(3)]
            assert opened.count(True) == int(claimed)
            if not claimed:
                assert _claim(restarted.control, codes[0], "late")


def _claim(url: str, code: str, user: str) -> bool:
    return _sent(url, "/v1/claim", {"code": code, "user": user, "password": PASSWORD})


def _login(url: str, user: str) -> bool:
    return _sent(url, "/v1/login", {"user": user, "password": PASSWORD})


def _sent(url: str, path: str, body: dict[str, str]) -> bool:
    with Client(url, "") as client, suppress(SvcError):
        return bool(client.call("POST", path, body)["token"])
    return False
