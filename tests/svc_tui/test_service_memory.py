"""The memory budget of a service in its control API and in `svc usage`."""

import json
from pathlib import Path

import pytest

from engine.wasm.execution.memory_budget import default_budget
from svc_tui.main import run
from tests.svc_tui.hosted import Hosted, deploy, static_shop


def test_state_and_usage_show_the_memory_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = static_shop(tmp_path / "shop")
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        deploy(client, root)
        memory = client.call("GET", "/v1/projects/shop/state")["memory"]
        monkeypatch.chdir(root)
        monkeypatch.setenv("SVC_URL", hosted.control)
        monkeypatch.setenv("SVC_TOKEN", hosted.token)
        assert run(["usage", "--service", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["memory"]
    assert memory["budget"] == shown["budget"] == default_budget()
    assert 0 < memory["used"] < memory["budget"]
