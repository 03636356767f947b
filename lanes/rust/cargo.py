"""One run of cargo: what it is told, what it may take, what is kept of what it prints.

Owns the command line of a build. What the outcome means for a Resource is `lane.py`'s and `failure.py`'s.
"""

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.lane import BuildMode
from lanes.process_group import MAX_TAIL_BYTES, Lines, Tail, run_group
from lanes.rust.messages import LONGEST_LINE, Messages

TARGET = "wasm32-wasip2"
LIMIT_SECS = 900.0
DEV_PROFILE = "svc-dev"
_LINES_REPORTED = 500
# Steps that take long: the network, crates of others, another cargo at work. A path in parentheses marks a
# crate of the user's own, which is compiled at each save.
_STEP = re.compile(
    r"\s*(?:(?:Updating|Downloading|Downloaded|Blocking)\b|Compiling [^(]*$|info: |warning: spurious)"
)


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that ended: its status, its messages, and the end of what it printed for people."""

    status: int
    messages: Messages
    printed: str


class CargoTimeout(Exception):
    """The run took longer than its limit. The text is the end of what it printed."""


def command(cargo: str, mode: BuildMode) -> list[str]:
    """Return the command line of a build.

    A dev build has a profile of its own beside the user's `release`: the same code, but compiled in pieces
    that a later build takes up again, so that a save costs what it changed.
    """
    line = [cargo, "build", "--target", TARGET, "--message-format=json-diagnostic-rendered-ansi"]
    if mode == "deploy":
        return [*line, "--release"]
    profile = {
        "inherits": '"release"',
        "incremental": "true",
        "codegen-units": "256",
        "lto": '"off"',
        "debug": "false",
    }
    options = [f"--config=profile.{DEV_PROFILE}.{key}={value}" for key, value in profile.items()]
    return [*line, f"--profile={DEV_PROFILE}", *options]


async def build(
    cargo: str,
    mode: BuildMode,
    workdir: Path,
    root: Path,
    report: Callable[[str], None],
    limit_secs: float = LIMIT_SECS,
) -> Finished:
    """Run cargo in `workdir`, so that its `rust-toolchain.toml` and `.cargo/config.toml` hold.

    Raises `CargoLate`, and `OSError` when cargo can not be started.
    """
    messages, printed = Messages(root), _Printed(report)
    told = Lines(messages.take, LONGEST_LINE)
    environ = {**os.environ, "CARGO_TERM_COLOR": "never", "CARGO_TERM_PROGRESS_WHEN": "never"}
    try:
        async with asyncio.timeout(limit_secs):
            status = await run_group(command(cargo, mode), workdir, told.feed, printed.feed, environ)
    except TimeoutError:
        raise CargoTimeout(printed.text) from None
    return Finished(status, messages, printed.text)


class _Printed:
    """The end of cargo's stderr, and its long steps as they come."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._tail = Tail()
        self._lines = Lines(self._say, MAX_TAIL_BYTES)
        self._reported = 0

    def feed(self, block: bytes) -> None:
        self._tail.feed(block)
        self._lines.feed(block)

    def _say(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        if self._reported < _LINES_REPORTED and _STEP.match(text):
            self._reported += 1
            self._report(text.strip())

    @property
    def text(self) -> str:
        return self._tail.text
