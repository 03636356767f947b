import asyncio
import threading
from pathlib import Path

import pytest

from engine.deploy.serving import Doors
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse, LogEntry
from engine.timeline.bus import TimelineBus
from engine.timeline.record import Record, StructuredRecord


class Diary:
    """A Door that logs the numbers below the one in its path, in a thread or at once."""

    name = "diary"
    variables = ()
    max_body = 10
    streams = False

    def open(self, place: DoorContext) -> "Diary":
        self.place = place
        return self

    async def answer(self, request: DoorRequest) -> DoorResponse:
        where, _, count = request.path.strip("/").partition("/")

        def write() -> None:
            for number in range(int(count)):
                self.place.log(LogEntry(number, "INFO", where, {}, request.caller))

        if where == "thread":
            await asyncio.to_thread(write)
        else:
            write()
        return DoorResponse(200)

    async def aclose(self) -> None:
        return


async def published_records(path: str, folder: Path) -> list[tuple[Record, int]]:
    timeline, published = TimelineBus(), list[tuple[Record, int]]()
    timeline.subscribe(lambda record: published.append((record, threading.get_ident())))
    doors = Doors([Diary()], "shop", folder, timeline)
    answer = doors.open["diary"].answer(
        DoorRequest("POST", path, query="", headers=(), body=b"", caller=Caller("web", "01id"))
    )
    assert not isinstance(answer, DoorResponse)
    await answer
    in_time = list(published)
    await doors.aclose()
    return in_time


def test_door_calls_are_counted_by_door_and_resource(tmp_path: Path) -> None:
    async def used() -> dict[tuple[str, str], int]:
        doors = Doors([Diary()], "shop", tmp_path, TimelineBus())
        for resource in ("web", "api", "web"):
            asked = DoorRequest(
                "POST", "/loop/1", query="", headers=(), body=b"", caller=Caller(resource, "01id")
            )
            answer = doors.open["diary"].answer(asked)
            assert not isinstance(answer, DoorResponse)
            await answer
        await doors.aclose()
        return doors.uses

    assert asyncio.run(used()) == {("diary", "web"): 2, ("diary", "api"): 1}


@pytest.mark.parametrize("where", ["thread", "loop"])
def test_door_records_reach_timeline_on_loop_before_response(tmp_path: Path, where: str) -> None:
    published = asyncio.run(published_records(f"/{where}/500", tmp_path))
    assert all(isinstance(record, StructuredRecord) for record, _ in published)
    assert [record.time_ns for record, _ in published] == list(range(500))
    assert {thread for _, thread in published} == {threading.get_ident()}
