"""Quotas of projects on a service: `svc quota`, its routes, its roles, and what it limits."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from svc_tui.client import ApiError, Client
from svc_tui.main import run
from tests.support.waiting import until
from tests.svc_tui.hosted import PASSWORD, Hosted, deploy, static_shop

NO_LIMITS = dict.fromkeys(("instances", "memory_mb", "requests", "storage_mb", "egress", "files_mb"))
QUOTA = "/v1/projects/shop/quota"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return static_shop(tmp_path / "shop")


@pytest.fixture
def hosted(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    with Hosted(tmp_path / "data") as hosted:
        with hosted.claim():
            pass
        monkeypatch.chdir(root)
        monkeypatch.setenv("SVC_URL", hosted.control)
        monkeypatch.setenv("SVC_TOKEN", hosted.token)
        yield hosted


def svc(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run a command with `--json` and return its document."""
    assert run(["quota", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(client: Client) -> dict[str, Any]:
    """Return the record of a refused request, once it is stored."""

    def records() -> list[dict[str, Any]]:
        params = {"n": 1, "status": "429"}
        found: list[dict[str, Any]] = client.call("GET", "/v1/projects/shop/logs/window", params=params)[
            "records"
        ]
        return found

    return until(records)[0]


def test_quota_limits_requests_instances_and_storage(
    hosted: Hosted, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert svc(capsys, "set", "shop", "--requests", "2", "--instances", "9") == {
        **NO_LIMITS,
        "requests": 2,
        "instances": 9,
    }  # The project is not deployed yet.
    with Client(hosted.control, hosted.token) as client:
        deploy(client, root)
        with ThreadPoolExecutor(12) as threads:
            answers = list(threads.map(lambda _: hosted.get(), range(12)))
        answers.sort(key=lambda answer: answer.status_code)
        assert [answer.status_code for answer in answers[:2]] == [200, 200]
        assert answers[-1].status_code == 429
        refused = answers[-1].json()
        assert refused["code"] == "quota-exceeded" and "2" not in refused["detail"]
        assert answers[-1].headers["retry-after"] == "1"
        assert "svc quota set shop --requests N" in refusal(client)["detail"]

        changed = svc(capsys, "set", "shop", "--requests", "0", "--storage", "1")
        assert changed == {**NO_LIMITS, "instances": 9, "storage_mb": 1}
        assert svc(capsys, "show") == changed
        assert client.call("GET", "/v1/projects/shop/state")["quota"] == changed
        assert all(hosted.get().status_code == 200 for _ in range(6))
        sql = {"sql": "create table t as select hex(zeroblob(400000)) as a", "write": True}
        client.call("POST", "/v1/projects/shop/sql", sql)
        with pytest.raises(ApiError) as exc_info:
            client.call(
                "POST", "/v1/projects/shop/sql", {"sql": "insert into t select a from t", "write": True}
            )
        assert exc_info.value.code == "storage-quota"
        assert "quota of 1 MiB" in exc_info.value.message

    hosted.stop()
    with Hosted(tmp_path / "data") as restarted, Client(restarted.control, hosted.token) as client:
        assert client.call("GET", QUOTA) == changed
        with pytest.raises(ApiError, match="quota of 1 MiB"):
            client.call(
                "POST", "/v1/projects/shop/sql", {"sql": "insert into t select a from t", "write": True}
            )
        assert client.call("DELETE", QUOTA) == NO_LIMITS
        client.call("POST", "/v1/projects/shop/sql", {"sql": "insert into t select a from t", "write": True})


def test_quota_prints_limits_and_names_mistakes(hosted: Hosted, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quota", "set", "shop", "--memory", "2048", "--egress", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["instances", "no", "limit"]
    assert "memory     2,048 MiB of memory for them" in lines
    assert "egress     5 calls to other servers a second" in lines
    assert run(["quota", "set", "shop"]) == 2
    assert "no limit to set" in capsys.readouterr().err
    assert run(["quota", "rm", "shop"]) == 0
    assert capsys.readouterr().out == "shop has no quota\n"
    assert svc(capsys, "show", "shop") == NO_LIMITS


def test_only_owners_of_the_service_change_a_quota(hosted: Hosted, root: Path) -> None:
    with Client(hosted.control, hosted.token) as owner:
        deploy(owner, root)
        owner.call("PUT", QUOTA, {"requests": 7})
        owner.call("PUT", "/v1/users/bob", {"password": PASSWORD, "roles": {"shop": "owner"}})
        owner.call("PUT", "/v1/users/eve", {"password": PASSWORD, "roles": {"other": "owner"}})
    for user, may_see in (("bob", True), ("eve", False)):
        with Client(hosted.control, "") as anyone:
            token = anyone.call("POST", "/v1/login", {"user": user, "password": PASSWORD})["token"]
        with Client(hosted.control, token) as client:
            if may_see:
                assert client.call("GET", QUOTA)["requests"] == 7
            else:
                with pytest.raises(ApiError, match="has no role"):
                    client.call("GET", QUOTA)
            for method, body in (("PUT", {"requests": None}), ("DELETE", None)):
                with pytest.raises(ApiError) as exc_info:
                    client.call(method, QUOTA, body)
                assert exc_info.value.code == "forbidden"
    assert httpx.get(f"{hosted.control}{QUOTA}", timeout=60).status_code == 401


@pytest.mark.slow
def test_workers_share_a_quota(tmp_path: Path, root: Path) -> None:
    with Hosted(tmp_path / "data", workers=2) as hosted, hosted.claim() as client:
        deploy(client, root)
        assert {hosted.get().status_code for _ in range(20)} == {200}
        client.call("PUT", QUOTA, {"requests": 2})
        began, statuses = time.monotonic(), [hosted.get().status_code for _ in range(40)]
        seconds = time.monotonic() - began
        assert set(statuses) == {200, 429}
        assert statuses.count(200) <= 2 * (seconds + 1)  # One a second for each worker, and a burst of one.
        memory = client.call("GET", "/v1/projects/shop/state")["memory"]
        assert memory["used"] > 3 * (20 << 20)  # Each of the three processes has at least this.
        client.call("DELETE", QUOTA)
        assert {hosted.get().status_code for _ in range(20)} == {200}


@pytest.mark.parametrize("body", [{"requests": 0}, {"requests": -1}, {"requests": 10**10}, {"cpu": 1}])
def test_invalid_limit_is_refused(hosted: Hosted, body: dict[str, int]) -> None:
    with Client(hosted.control, hosted.token) as client, pytest.raises(ApiError) as exc_info:
        client.call("PUT", QUOTA, body)
    assert exc_info.value.code == "invalid"
