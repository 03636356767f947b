"""Programs that `svc dev` starts once and that build after each save, without loading their tools again.

A program reads lines from standard input. For each one it builds, then prints `svc: built` or `svc: failed`
on a line of its own. It may exit with status 0 between builds.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.lane import BuildFailed, BuildRequest
from lanes.process import (
    LIMIT_SECS,
    MAX_LINE_BYTES,
    CommandOutput,
    LineProgram,
    OutputLines,
    not_started,
    unsuccessful,
)

BUILT, FAILED = "svc: built", "svc: failed"


class BuildProgram:
    """The `builder` of one folder. It is started again after a change of a file directly in that folder."""

    def __init__(self) -> None:
        self._settings: tuple[str, Mapping[str, int]] | None = None
        self._program: LineProgram | None = None
        self._output: CommandOutput
        self._answer: asyncio.Future[str]

    async def build(self, request: BuildRequest, limit_secs: float = LIMIT_SECS) -> None:
        """Build by the program. A canceled or slow build ends it. Raises `BuildFailed`."""
        resource, workdir = request.resource, request.resource.workdir
        name, command = f"the builder of resource {resource.name}", resource.builder
        assert command is not None
        settings = (command, await asyncio.to_thread(_files, workdir))
        if settings != self._settings:
            await self.aclose()
            self._settings = settings
        self._output = CommandOutput(request.report)
        self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(limit_secs):
                status = await self._run(command, workdir)
        except TimeoutError:
            await self.aclose()
            raise BuildFailed(
                f"{name} did not build within {limit_secs:g} seconds and was stopped: {command}",
                f"It must print `{BUILT}` or `{FAILED}` after each build.",
                output=self._output.tail,
                reported=self._output.reported,
            ) from None
        except asyncio.CancelledError:
            await self.aclose()
            raise
        except OSError as error:
            raise not_started(name, workdir, error) from error
        if status is not None:
            raise unsuccessful(name, command, workdir, status, self._output)
        if self._answer.result() == FAILED:
            hint = f"Correct the sources, or run the `build` command by hand in {workdir} to see more."
            output, reported = self._output.tail, self._output.reported
            raise BuildFailed(f"{name} failed: {command}", hint, output=output, reported=reported)

    async def _run(self, command: str, workdir: Path) -> int | None:
        """Request a build. Return the status of a program that ended without an answer, else `None`."""
        while True:
            program = self._program
            if new := program is None or program.running.done():
                await self.aclose()
                lines = OutputLines(self._receive, MAX_LINE_BYTES)
                program = self._program = LineProgram(command, workdir, lines.feed)
            program.write(b"build")
            waiting: set[asyncio.Future[Any]] = {program.running, self._answer}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._answer.done():
                return None
            if new or program.running.result():
                return program.running.result()

    def _receive(self, line: bytes) -> None:
        if (text := line.decode(errors="replace").rstrip()) not in (BUILT, FAILED):
            self._output.feed(line + b"\n")
        elif not self._answer.done():
            self._answer.set_result(text)

    async def aclose(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            await program.aclose()


def _files(folder: Path) -> Mapping[str, int]:
    """Return the times of change of the files directly in a folder, by name."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_mtime_ns for entry in entries if entry.is_file()}
