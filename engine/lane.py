"""The Protocol that each lane implements, and the values that cross it.

A lane turns the sources of one Resource into one artifact and says exactly what it needs. It serves
nothing and keeps no state that a build depends on, beyond caches that may be deleted at any time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from engine.ansi import strip_ansi
from engine.artifact import Artifact
from engine.errors import SvcError
from engine.manifest.lanes import LaneSpec
from engine.manifest.model import Resource

BuildMode = Literal["dev", "deploy"]
GENERATED_HEADER = "// Written by svc, for this machine"
"""What a file begins with that a lane leaves among sources, for other tools; no build depends on it."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One complaint of a compiler about a place in the user's sources.

    `file` is relative to the Project folder (POSIX separators); `line` and `column` count from 1, 0 when
    unknown; `frame` is a ready code frame of a few lines, or empty. It may have the compiler's own colours,
    which a face shows or leaves out (`engine/ansi.py`).
    """

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    frame: str = ""


class BuildFailed(SvcError):
    """The sources do not build. `output` is what the tool printed (may be empty, may have colours)."""

    code = "build-failed"

    def __init__(
        self, message: str, hint: str = "", *, diagnostics: tuple[Diagnostic, ...] = (), output: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.diagnostics = diagnostics
        self.output = output

    @property
    def output_text(self) -> str:
        """What the compiler complains of, place by place, or else what the tool printed; without colours."""
        lines: list[str] = []
        for each in self.diagnostics:
            place = ":".join(str(part) for part in (each.file, each.line, each.column) if part)
            lines += [f"{place}  {each.message}" if place else each.message]
            lines += [each.frame] if each.frame else []
        return strip_ansi("\n".join(lines) if lines else self.output.rstrip())


class ToolchainMissing(SvcError):
    """A tool that the lane needs is not there and could not be installed; the hint is the command."""

    code = "toolchain-missing"


def ignore_progress(_line: str) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One build of one Resource.

    `root` is the Project folder, `cache` the folder for everything that can be made again (shared by all
    Projects and processes of this user). `report` takes one line of progress at a time, for steps that
    take longer than a blink ("installing the js toolchain …").
    """

    resource: Resource
    root: Path
    cache: Path
    mode: BuildMode
    report: Callable[[str], None] = field(default=ignore_progress)


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing that a lane needs of the machine, as `svc doctor` shows it.

    `problem` is empty when the tool can be used; `version` and `path` then say which one it is. Otherwise
    `remedy` is the command to run. `managed` tells a copy in the cache folder, which `Lane.install` makes
    and which the first build makes by itself.
    """

    name: str
    version: str = ""
    path: str = ""
    problem: str = ""
    remedy: str = ""
    managed: bool = False


class Lane(Protocol):
    """One lane. Raises `BuildFailed` for the user's sources, `ToolchainMissing` for the machine."""

    spec: LaneSpec

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        """Return what the lane needs and what of it is there. Looks only: installs nothing."""
        ...

    async def install(self, cache: Path, report: Callable[[str], None]) -> None:
        """Install what is managed and missing. Raises `ToolchainMissing` for what is left to the user."""
        ...

    def identity(self, cache: Path) -> str:
        """Return what an artifact depends on besides its Resource: the tools, and the lane's own code.

        Equal texts: what was built before need not be built again. Starts no process, costs milliseconds
        (`lanes/identity.py`); a tool that is not there yet is part of it too.
        """
        ...

    async def build(self, request: BuildRequest) -> Artifact:
        """Build the Resource. May be cancelled; leaves nothing half-made behind either way."""
        ...

    async def aclose(self) -> None:
        """End every helper process that the lane keeps."""
        ...
