import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.lane import BuildFailed, BuildRequest
from engine.manifest.model import Resource
from lanes.build_program import BuildProgram

Build = Callable[[str], Awaitable[list[str]]]
LOOP = "while read _; do {}; done"
BUILT = "echo; echo svc: built"


@asynccontextmanager
async def program(workdir: Path, limit_secs: float = 60) -> AsyncIterator[Build]:
    """Yield a function that builds with a command and returns the lines of output."""
    instance = BuildProgram()

    async def build(command: str) -> list[str]:
        lines: list[str] = []
        resource = Resource("web", "static", workdir, build="true", builder=command, output=workdir / "out")
        await instance.build(BuildRequest(resource, workdir, workdir, "dev", lines.append), limit_secs)
        return lines

    try:
        yield build
    finally:
        await instance.aclose()


def test_program_is_started_once_for_all_builds(tmp_path: Path) -> None:
    async def scenario() -> list[list[str]]:
        async with program(tmp_path) as build:
            command = LOOP.format(f"echo $$; {BUILT}")
            return [await build(command) for _ in range(3)]

    first, *others = asyncio.run(scenario())
    assert first[0].isdigit() and others == [first, first]
    with pytest.raises(ProcessLookupError):
        os.kill(int(first[0]), 0)


def test_program_is_started_again_after_a_change_beside_it_and_for_another_command(tmp_path: Path) -> None:
    async def scenario() -> list[list[str]]:
        async with program(tmp_path) as build:
            command = LOOP.format(f"echo $$; {BUILT}")
            results = [await build(command)]
            (tmp_path / "package.json").write_text("{}")
            results.append(await build(command))
            (tmp_path / "src").mkdir()
            (tmp_path / "src" / "page.js").write_text("")
            results.append(await build(command))
            return [*results, await build(command + " ")]

    first, second, third, fourth = asyncio.run(scenario())
    assert first != second == third != fourth


def test_program_that_exits_between_builds_is_started_again(tmp_path: Path) -> None:
    async def scenario() -> list[list[str]]:
        async with program(tmp_path) as build:
            return [await build(f"read _; echo $$; {BUILT}") for _ in range(3)]

    assert len({tuple(lines) for lines in asyncio.run(scenario())}) == 3


@pytest.mark.parametrize(
    ("command", "message", "output"),
    [
        (LOOP.format("echo page.js:3 broken; echo svc: failed"), "web failed: while", "page.js:3 broken"),
        ("echo no module >&2; exit 3", "failed with exit status 3", "no module"),
        ("exit 0", "failed with exit status 0", ""),
        ("no-such-program", "failed with exit status 127", "not found"),
        ("kill -9 $$", "was ended by SIGKILL", ""),
        ("cat; sleep 100", "did not build within 1 seconds and was stopped", "build"),
    ],
)
def test_failed_build_is_reported_and_the_next_one_is_tried(
    tmp_path: Path, command: str, message: str, output: str
) -> None:
    async def scenario() -> BuildFailed:
        async with program(tmp_path, limit_secs=1 if "within" in message else 60) as build:
            with pytest.raises(BuildFailed) as exc_info:
                await build(command)
            assert await build(LOOP.format(BUILT)) == []
            return exc_info.value

    error = asyncio.run(scenario())
    assert message in error.message and error.hint and output in error.output and error.reported


def test_canceled_build_ends_the_program(tmp_path: Path) -> None:
    async def scenario() -> int:
        async with program(tmp_path) as build:
            pipe = tmp_path / "out.fifo"
            os.mkfifo(pipe)
            building = asyncio.create_task(build(LOOP.format("echo $$ > out.fifo; sleep 100")))
            pid = int(await asyncio.to_thread(pipe.read_text))
            building.cancel()
            await asyncio.wait([building])
            assert building.cancelled()
            return pid

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(scenario()), 0)
