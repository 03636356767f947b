"""Protocol that each lane implements, and the values it exchanges with the engine.

A lane builds the sources of one resource to one artifact. Its only state are caches that can be deleted at
any time.
"""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from engine.ansi import strip_ansi
from engine.artifact import Artifact, ComponentArtifact
from engine.errors import SvcError
from engine.manifest.model import LaneSpec, Resource

BuildMode = Literal["dev", "deploy"]
GENERATED_HEADER = "// Written by svc, for this machine"
"""First line of files that a lane writes among the sources for editors; no build depends on them."""
_LINES_BEFORE = 2


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error of a compiler at a position in the user's sources.

    `file` is relative to the project folder, with POSIX separators. `line` and `column` count from 1; 0 means
    unknown. `frame` is a code frame of a few lines, or empty; it may contain ANSI colors.
    """

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    frame: str = ""


def code_frame(file: Path, line: int, column: int, length: int = 1, *, counts_bytes: bool = False) -> str:
    """Return the lines around a position with a marker below it; empty if they cannot be read.

    `counts_bytes` is whether the column is that of a byte, not of a character.
    """
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    if not 0 < line <= len(lines):
        return ""
    last = min(len(lines), line + 1)
    width = len(str(last))
    rows = []
    for number in range(max(1, line - _LINES_BEFORE), last + 1):
        text, mark = lines[number - 1], ">" if number == line else " "
        rows.append(f"{mark} {number:>{width}} │ {text.expandtabs(2)}")
        if number == line and column > 0:
            begin = len(text.encode()[: column - 1].decode(errors="replace")) if counts_bytes else column - 1
            pad = len(text[:begin].expandtabs(2))
            rows.append(f"  {'':>{width}} │ {' ' * pad}{'^' * max(1, min(length, 60))}")
    return "\n".join(rows)


class BuildFailed(SvcError):
    """The sources do not build. `output` is the output of the tool, with ANSI colors, or empty.

    `reported` is true if lines of progress contained all of it.
    """

    code = "build-failed"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        diagnostics: tuple[Diagnostic, ...] = (),
        output: str = "",
        reported: bool = False,
    ) -> None:
        super().__init__(message, hint)
        self.diagnostics = diagnostics
        self.output = output
        self.reported = reported

    @property
    def output_text(self) -> str:
        """The diagnostics with their positions, or else the output of the tool; without colors."""
        lines: list[str] = []
        for each in self.diagnostics:
            location = ":".join(str(part) for part in (each.file, each.line, each.column) if part)
            lines += [f"{location}  {each.message}" if location else each.message]
            lines += [each.frame] if each.frame else []
        return strip_ansi("\n".join(lines) if lines else self.output.rstrip())


class ToolchainMissing(SvcError):
    """A tool that the lane needs is missing and could not be installed; the hint is the command."""

    code = "toolchain-missing"


def ignore_progress(_line: str) -> None:
    """Discard a line of progress."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One build of one resource.

    `root` is the project folder. `cache` is shared by all projects and processes of this user. `report`
    receives single lines of progress for slow steps ("installing the js toolchain …"). `evaluate`, if any,
    runs a dev artifact once and returns why that failed with what it printed, or `None`. `loader`, if any, is
    a dev artifact with a script, whose snapshot is built instead of the sources.
    """

    resource: Resource
    root: Path
    cache: Path
    mode: BuildMode
    report: Callable[[str], None] = field(default=ignore_progress)
    _: KW_ONLY
    evaluate: Callable[[ComponentArtifact], Awaitable[str | None]] | None = None
    loader: ComponentArtifact | None = None

    def display_path(self, path: Path) -> str:
        """Return a path for messages: relative to the project folder if it is inside."""
        if path == self.root:
            return "the project folder"
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a lane needs, as `svc doctor` shows it.

    A usable tool has an empty `problem`, and `version` and `path` identify it. Otherwise `remedy` is the
    command to run. A `managed` tool lies in the cache folder; `Lane.install` or the first build installs it.
    """

    name: str
    version: str = ""
    _: KW_ONLY
    path: str = ""
    problem: str = ""
    remedy: str = ""
    managed: bool = False


class Lane(Protocol):
    """One lane. Raises `BuildFailed` for the user's sources, `ToolchainMissing` for the machine."""

    spec: LaneSpec

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        """Return the tools that the lane needs, and their state. Installs nothing."""

    async def install(self, cache: Path, report: Callable[[str], None]) -> None:
        """Install missing managed tools. Raises `ToolchainMissing` for tools that the user must install."""

    def identity(self, cache: Path) -> str:
        """Return a fingerprint of what artifacts depend on besides the resource: tools and the lane's code.

        An equal fingerprint lets the cache reuse an earlier artifact. Takes milliseconds.
        A missing tool is part of the fingerprint.
        """

    async def build(self, request: BuildRequest) -> Artifact:
        """Build the resource. Leaves nothing incomplete behind, even if canceled."""

    async def aclose(self) -> None:
        """Stop the helper processes of the lane."""
