"""`svc fleet rescue` on data directories from which nothing can be rescued."""

import socket
from pathlib import Path
from typing import Any

import pytest

from engine.fleet.node import NODE_FOLDER, found_node
from svc_tui import main
from tests.engine.fleet.cluster import free_addresses
from tests.support.fleet import require_nats

KEEPERS = ("n1-a1", "n2-b2", "n3-c3")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, "has no data of its fleet yet"),
        ({"state": "member", "keeper": False}, "is an agent"),
        ({"state": "member"}, "does not have the ids of all keepers"),
        ({"state": "member", "keepers": ("../x", *KEEPERS)}, "does not have the ids of all keepers"),
        ({"state": "member", "keepers": KEEPERS}, "has no copy of the stream svc-kv"),
    ],
)
def test_folder_without_the_data_of_a_fleet_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], error: str
) -> None:
    require_nats()
    data, target = tmp_path / "data ü", tmp_path / "new"
    data.mkdir()
    found_node(data / NODE_FOLDER, free_addresses(1)[0]).save(data / NODE_FOLDER, **changes)
    assert main.run(["fleet", "rescue", str(target), "--data", str(data)]) == 1
    assert error in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [data]


def test_service_that_still_runs_is_to_be_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, address = tmp_path / "data", free_addresses(1)[0]
    data.mkdir()
    changes: dict[str, Any] = {"state": "member", "keepers": KEEPERS, "nodes": (address,)}
    found_node(data / NODE_FOLDER, address).save(data / NODE_FOLDER, **changes)
    with socket.create_server((address.host, address.port)):
        assert main.run(["fleet", "rescue", str(tmp_path / "new"), "--data", str(data)]) == 1
    assert "Stop its service first" in capsys.readouterr().err
