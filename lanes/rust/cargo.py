"""Runs of cargo: command line, time limit and captured output."""

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.lane import BuildMode
from lanes.process import MAX_TAIL_BYTES, OutputLines, Tail, run_group
from lanes.rust.messages import MAX_LINE_BYTES, Messages

TARGET = "wasm32-wasip2"
LIMIT_SECS = 900.0
DEV_PROFILE = "svc-dev"
_LINES_REPORTED = 500
# Slow steps: network, dependencies, a lock held by another cargo. A path in parentheses marks a crate of the
# user, which every save compiles.
_STEP = re.compile(
    r"\s*(?:(?:Updating|Downloading|Downloaded|Blocking)\b|Compiling [^(]*$|info: |warning: spurious)"
)


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished run: its status, its messages, and the end of its stderr."""

    status: int
    messages: Messages
    stderr: str


class CargoTimeout(Exception):
    """The run exceeded its time limit. The text is the end of its output."""


def command(cargo: str, mode: BuildMode) -> list[str]:
    """Return the command line of a build.

    A dev build uses its own profile based on the user's `release`, compiled incrementally.
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
    """Run cargo in `workdir`, where its `rust-toolchain.toml` and `.cargo/config.toml` apply.

    Raises `CargoTimeout`, and `OSError` if cargo cannot be started.
    """
    messages, stderr = Messages(root), _Stderr(report)
    stdout = OutputLines(messages.take, MAX_LINE_BYTES)
    environ = {**os.environ, "CARGO_TERM_COLOR": "never", "CARGO_TERM_PROGRESS_WHEN": "never"}
    try:
        async with asyncio.timeout(limit_secs):
            status = await run_group(command(cargo, mode), workdir, stdout.feed, stderr.feed, environ)
    except TimeoutError:
        raise CargoTimeout(stderr.text) from None
    return Finished(status, messages, stderr.text)


class _Stderr:
    """Sink for cargo's stderr: retains its end and reports slow steps."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._tail = Tail()
        self._lines = OutputLines(self._report_step, MAX_TAIL_BYTES)
        self._reported = 0

    def feed(self, block: bytes) -> None:
        self._tail.feed(block)
        self._lines.feed(block)

    def _report_step(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        if self._reported < _LINES_REPORTED and _STEP.match(text):
            self._reported += 1
            self._report(text.strip())

    @property
    def text(self) -> str:
        return self._tail.text
