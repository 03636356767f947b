"""Runs of cargo: command line, time limit, and its messages (the cargo book, "External tools")."""

import asyncio
import json
import os
import re
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from engine.lane import BuildFailed, BuildMode, BuildRequest, Diagnostic
from lanes.process import MAX_TAIL_BYTES, OutputLines, Tail, run_group

MAX_LINE_BYTES = 8 << 20
_MAX_DIAGNOSTICS = 50
_MAX_FRAME_LENGTH = 8192
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_NO_POSITION = re.compile(r"aborting due to|\d+ warnings? emitted")


@dataclass(slots=True)
class Messages:
    """Messages and status of a build. Positions of diagnostics are relative to `root`, the project folder."""

    root: Path
    artifacts: list[tuple[str, Path]] = field(default_factory=list)
    """Package name and path of each linked WebAssembly file."""
    _: KW_ONLY
    manifests: set[Path] = field(default_factory=set)
    """`Cargo.toml` of every local package, not from a registry or git."""
    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    rendered: list[str] = field(default_factory=list)
    """Each error as rendered by rustc, with colors."""
    status: int = 0
    stderr: str = ""
    """The end of its stderr."""

    def take(self, line: bytes) -> None:
        """Parse the next line of stdout."""
        if not line.startswith(b"{"):
            return
        try:
            message = json.loads(line)
        except ValueError:
            return
        if message.get("reason") == "compiler-artifact":
            self._artifact(message)
        elif message.get("reason") == "compiler-message":
            self._diagnostic(message["message"], Path(message["manifest_path"]).parent)

    def _artifact(self, message: dict[str, Any]) -> None:
        if not message["package_id"].startswith("path+"):
            return
        manifest = Path(message["manifest_path"])
        self.manifests.add(manifest)
        for name in message["filenames"]:
            # Files in `deps` are parts of other artifacts.
            if name.endswith(".wasm") and Path(name).parent.name != "deps":
                self.artifacts.append((package(message["package_id"]), Path(name)))

    def _diagnostic(self, message: dict[str, Any], folder: Path) -> None:
        text, level = message["message"], message["level"]
        if level not in ("error", "warning", "error: internal compiler error") or _NO_POSITION.match(text):
            return
        code = (message.get("code") or {}).get("code")
        rendered = message.get("rendered") or ""
        span = next((span for span in message["spans"] if span["is_primary"]), None)
        while span is not None and span.get("expansion") and _foreign(span["file_name"]):
            span = span["expansion"]["span"]
        full_text = f"{text} [{code}]" if code and level != "warning" else text
        file = _file(span["file_name"], folder, self.root) if span else ""
        diagnostic = Diagnostic(
            full_text,
            file,
            span["line_start"] if span else 0,
            span["column_start"] if span else 0,
            _frame(rendered),
        )
        if level == "warning":
            if span and len(self.warnings) < _MAX_DIAGNOSTICS:
                self.warnings.append(diagnostic)
        else:
            if code:
                self.codes.add(code)
            if len(self.errors) < _MAX_DIAGNOSTICS:
                self.errors.append(diagnostic)
                self.rendered.append(rendered[:_MAX_FRAME_LENGTH])


def package(identifier: str) -> str:
    """Return the name in a package id: `path+file:///app/api#name@0.1.0`, or `…/api#0.1.0`."""
    url = urlsplit(identifier.removeprefix("path+"))
    name, _, version = url.fragment.rpartition("@")
    return name if version and name else Path(unquote(url.path)).name


def _foreign(name: str) -> bool:
    return name.startswith(("/rustc/", "<")) or Path(name).is_absolute()


def _file(name: str, folder: Path, root: Path) -> str:
    """Return a file relative to the project folder.

    rustc names files relative to the workspace, which is the package's own folder or one around it.
    """
    bases = (folder, *folder.parents)
    path = next((base / name for base in bases if (base / name).is_file()), folder / name).resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _frame(rendered: str) -> str:
    """Return the rendered text after message and position, with its colors."""
    lines = rendered[:_MAX_FRAME_LENGTH].rstrip().split("\n")
    position_line = next((i for i, line in enumerate(lines) if "--> " in _COLOR.sub("", line)), 0)
    return "\n".join(lines[position_line + 1 :])


TARGET = "wasm32-wasip2"
LIMIT_SECS = 900.0
DEV_PROFILE = "svc-dev"
_LINES_REPORTED = 500
# Slow steps: network, dependencies, a lock held by another cargo. A path in parentheses marks a crate of the
# user, which every save compiles.
_STEP = re.compile(
    r"\s*(?:(?:Updating|Downloading|Downloaded|Blocking)\b|Compiling [^(]*$|info: |warning: spurious)"
)


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


async def build(cargo: str, request: BuildRequest, limit_secs: float = LIMIT_SECS) -> Messages:
    """Run cargo in the folder of a resource, with its `rust-toolchain.toml` and `.cargo/config.toml`.

    Raises `BuildFailed` if it exceeds the time limit, and `OSError` if cargo cannot be started.
    """
    messages, tail, reported = Messages(request.root), Tail(), 0

    def report_step(line: bytes) -> None:
        nonlocal reported
        text = line.decode(errors="replace")
        if reported < _LINES_REPORTED and _STEP.match(text):
            reported += 1
            request.report(text.strip())

    stdout, steps = OutputLines(messages.take, MAX_LINE_BYTES), OutputLines(report_step, MAX_TAIL_BYTES)

    def feed_stderr(block: bytes) -> None:
        tail.feed(block)
        steps.feed(block)

    environ = {**os.environ, "CARGO_TERM_COLOR": "never", "CARGO_TERM_PROGRESS_WHEN": "never"}
    line, workdir = command(cargo, request.mode), request.resource.workdir
    try:
        async with asyncio.timeout(limit_secs):
            messages.status = await run_group(line, workdir, stdout.feed, feed_stderr, environ)
    except TimeoutError:
        raise BuildFailed(
            f"resource {request.resource.name}: cargo did not end within {limit_secs / 60:g} minutes"
            " and was stopped",
            "Check the build scripts: one that waits never ends. A new build continues with the compiled"
            " crates.",
            output=tail.text,
        ) from None
    messages.stderr = tail.text
    return messages
