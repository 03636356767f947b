"""The Doors that answer clients."""

import pytest

from engine.gateway.door_delivery import public_door
from engine.wasm.outbound.door_calls import DoorBinding
from svc_tui import composition

DOORS = {
    door.name: DoorBinding(object(), door.max_body, hasattr(door, "streams"))  # type: ignore[arg-type]
    for door in composition.doors()
}


@pytest.mark.parametrize("path", ["/.svc/files/a", "/.svc/files/", "/.svc/files"])
def test_files_answer_clients(path: str) -> None:
    assert public_door(DOORS, path) is DOORS["files"]


@pytest.mark.parametrize(
    "path",
    [
        "/.svc/tables/v1/query",
        "/.svc/telemetry/v1/logs",
        "/.svc/crypto/v1/hmac",
        "/.svc/",
        "/files/a",
        "/.svc/x",
    ],
)
def test_no_other_door_answers_clients(path: str) -> None:
    assert public_door(DOORS, path) is None
