"""Unused Doors get cards if the diagram has room for them, and are named below it otherwise."""

import asyncio

import pytest

from screens.board.model import BoardModel
from screens.board.project import BoardDoor, Manifest, ProjectStatus
from tests.screens.board.resources import resource

DOORS = {
    "tables": BoardDoor(count=0),
    "telemetry": BoardDoor(records=0.0),
    "crypto": BoardDoor(users={"api": 2}),
    "files": BoardDoor(count=3),
    "jobs": BoardDoor(),
}


@pytest.mark.parametrize(
    ("rows", "shown", "text"),
    [
        (1, {"crypto", "files"}, "Unused Doors: tables, telemetry, jobs"),
        (12, {"crypto", "files"}, "Unused Doors: tables, telemetry, jobs"),
        (16, {"tables", "crypto", "files"}, "Unused Doors: telemetry, jobs"),
        (27, {"tables", "telemetry", "crypto", "files"}, "Unused Doors: jobs"),
        (28, set(DOORS), ""),
    ],
)
def test_used_doors_have_cards_and_others_if_they_fit(rows: int, shown: set[str], text: str) -> None:
    model = BoardModel()
    model.manifest = Manifest({"api": resource("api", "js")}, ())
    model.status = ProjectStatus(doors=DOORS)
    assert asyncio.run(model.layout((), 80, rows))
    assert set(model.names()) == {"api", *shown} and model.unused_doors == text
    assert rows < 16 or model.diagram.layout.height <= rows
