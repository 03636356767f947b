"""A new Door with data needs its own code and an entry in the composition, nothing else."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from docs import generate
from engine.deploy.serving import Doors
from engine.door import Caller, Door, DoorContext, DoorRequest, DoorResponse, OpenDoor, Stored
from engine.quota import Quota
from engine.timeline.bus import TimelineBus
from screens.board.cards import door_card
from screens.board.project import ProjectStatus
from svc_tui import composition
from tests.engine.control.developing import Shop, develop
from tests.svc_tui.hosted import static_shop

FILE = "bodies"


class EchoDoor(Door):
    """A Door that stores the bodies of requests, and answers with all of them."""

    name = "echo"
    purpose = "bodies of requests"
    pages = ("reference/doors.md",)
    unit = "file"
    variables = ("SVC_ECHO_ENDPOINT",)
    max_body = 100

    def open(self, context: DoorContext) -> OpenDoor:
        return OpenEcho(context.folder)

    @staticmethod
    def measure(data: Path) -> dict[str, Stored]:
        file = data / EchoDoor.name / FILE
        return {EchoDoor.name: Stored(1, file.stat().st_size) if file.exists() else Stored(0, 0)}


class OpenEcho:
    """The echo of one project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.most: int | None = None

    def answer(self, request: DoorRequest) -> DoorResponse:
        if self.most == 0:
            return DoorResponse(507)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / FILE).open("ab") as file:
            file.write(request.body)
        return DoorResponse(200, (self.folder / FILE).read_bytes())

    def limit(self, quota: Quota) -> None:
        self.most = quota.storage_mb

    async def aclose(self) -> None:
        return


@pytest.fixture(autouse=True)
def composed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the Door to the composition."""
    known = composition.doors

    def doors(*arguments: Any) -> tuple[Door, ...]:
        return (*known(*arguments), EchoDoor())

    monkeypatch.setattr(composition, "doors", doors)


async def sent(doors: Doors, body: bytes) -> DoorResponse:
    request = DoorRequest("POST", "/", query="", headers=(), body=body, caller=Caller("web", "01id"))
    answer = doors.open[EchoDoor.name].answer(request)
    return answer if isinstance(answer, DoorResponse) else await answer


async def opened(data: Path) -> Doors:
    return Doors(composition.doors(), "shop", data, TimelineBus())


def test_new_door_answers_stores_and_obeys_the_quota(tmp_path: Path) -> None:
    async def test() -> None:
        doors = await opened(tmp_path)
        assert doors.environment["SVC_ECHO_ENDPOINT"] == "http://echo.svc.internal"
        assert (await sent(doors, b"a")).body == b"a"
        assert (await sent(doors, b"b")).body == b"ab"
        doors.limit(Quota(storage_mb=0))
        assert (await sent(doors, b"c")).status == 507
        assert doors.uses == {("echo", "web"): 3}
        await doors.aclose()
        again = await opened(tmp_path)
        assert (await sent(again, b"c")).body == b"abc"
        await again.aclose()

    asyncio.run(test())


def test_state_of_a_project_and_its_board_show_the_new_door_and_its_data(tmp_path: Path) -> None:
    root = static_shop(tmp_path / "shop")

    async def test(shop: Shop) -> None:
        doors = await opened(root / ".svc")
        await sent(doors, b"hello")
        await doors.aclose()
        state = await shop.state()
        shown = door_card("echo", ProjectStatus.from_json(state).doors["echo"], 20)
        assert "1 file" in "".join(text for line in shown for text, _ in line)
        found = {door["name"]: door for door in state["doors"]}
        assert found["echo"] == {
            "name": "echo",
            "purpose": "bodies of requests",
            "variables": ["SVC_ECHO_ENDPOINT"],
            "unit": "file",
            "count": 1,
            "bytes": 5,
            "log_bytes": None,
            "records": None,
            "users": [],
        }

    develop(root, test)


def test_docs_list_the_new_door() -> None:
    assert (
        "| echo | bodies of requests | `http://echo.svc.internal`, `SVC_ECHO_ENDPOINT` |"
        in generate.doors_table()
    )
