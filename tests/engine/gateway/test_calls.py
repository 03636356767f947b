"""Calls of a request in its record."""

import asyncio

from engine.gateway.routes import NotReady, PendingBuild
from engine.manifest.model import Mount, Resource
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.gateway.serving import Scripted, Site, reply, with_site
from tests.engine.gateway.test_gateway import API, PUBLIC_API, ROOT

FRONT = Resource("front", "js", ROOT, public=True, mounts=(Mount("/*", "api"),))


async def call_twice(request: GuestRequest) -> RunReport:
    """Respond after a call that has ended, and one that has not."""
    ended, unfinished = request.begin_call("sql", "select 1"), request.begin_call("fetch", "GET http://a")
    assert ended is not None and unfinished is not None
    ended.end(200)
    return await reply(request, b"")


def test_calls_are_in_the_record_of_the_resource_that_made_them() -> None:
    async def test(site: Site) -> None:
        await site.ask("/")
        api, front = site.spans
        assert (api.resource, front.resource, front.calls) == ("api", "front", ())
        assert [(call.name, call.status, call.code) for call in api.calls] == [
            ("select 1", 200, ""),
            ("GET http://a", 0, "unfinished"),
        ]
        assert all(0 <= call.start_ns <= call.start_ns + call.wall_ns <= api.wall_ns for call in api.calls)

    with_site([FRONT, API], {"front": Scripted(call_twice), "api": Scripted(call_twice)}, test)


def test_wait_for_first_build_is_a_call() -> None:
    async def test(site: Site) -> None:
        asyncio.get_running_loop().call_later(0.3, build.finish, Scripted(call_twice))
        await site.ask("/")
        wait, *others = site.spans[0].calls
        assert wait.kind == "build" and wait.wall_ns > 1_000_000 and len(others) == 2

    build = PendingBuild()
    with_site([PUBLIC_API], {"api": NotReady(first_build=build)}, test)
