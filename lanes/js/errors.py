"""Errors of esbuild and the snapshot tool, with the user's file, line and a code frame."""

import re
from pathlib import Path
from typing import Any

from engine.lane import BuildFailed, BuildRequest, Diagnostic
from engine.sourcemap import SourceMap

_UNRESOLVED = re.compile(r'Could not resolve "([^"]+)"')
_POSITION = re.compile(r"\(([^()]+):(\d+):(\d+)\)")
_ASKED_FOR_TIME = re.compile(r"^svc: the time was asked for\n(.*?)svc: end$", re.MULTILINE | re.DOTALL)
_PACKAGE = re.compile(r".*node_modules/((?:@[^/]+/)?[^/]+)")
_TOOL = ("Failed to initialize component", "Exception while evaluating")
_THROWN = re.compile(r"(?:.+:\d+:\d+ )?(\w*Error\b.*|uncaught exception: .*)")
CONTEXT = 2
NO_EXPORT = "the module has no default export"
EXPORT_HINT = "Add: export default { async fetch(request) { return new Response('hello'); } }"


def code_frame(path: Path, line: int, column: int, length: int = 1) -> str:
    """Return the lines around a position with a marker below it; empty if they cannot be read."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    if not 0 < line <= len(lines):
        return ""
    first, last = max(1, line - CONTEXT), min(len(lines), line + 1)
    width = len(str(last))
    rows = []
    for number in range(first, last + 1):
        mark = ">" if number == line else " "
        rows.append(f"{mark} {number:>{width}} │ {lines[number - 1].expandtabs(2)}")
        if number == line and column > 0:
            pad = len(lines[number - 1][: column - 1].expandtabs(2))
            rows.append(f"  {'':>{width}} │ {' ' * pad}{'^' * max(1, min(length, 60))}")
    return "\n".join(rows)


def bundle_failure(errors: list[dict[str, Any]], request: BuildRequest, entry: str) -> BuildFailed:
    """Return the error for all diagnostics of esbuild, in their order."""
    hint = ""
    diagnostics = []
    for error in errors:
        text, file = error["text"], error.get("file", "")
        if file.startswith("svc:"):
            file, error = entry, {}
            if 'import "default"' in text:
                text, hint = NO_EXPORT, EXPORT_HINT
        if text.startswith("Top-level await"):
            text = "top-level await is not supported: move it into fetch"
        missing = _UNRESOLVED.search(text)
        if missing:
            hint = hint or _unresolved_hint(missing.group(1), request)
        line, column = error.get("line", 0), error.get("column", 0)
        frame = code_frame(request.root / file, line, column, error.get("length", 1)) if line else ""
        diagnostics.append(Diagnostic(text, file, line, column, frame))
    count = "an error" if len(diagnostics) == 1 else f"{len(diagnostics)} errors"
    return BuildFailed(
        f"resource {request.resource.name} does not build: {count}", hint, diagnostics=tuple(diagnostics)
    )


def _unresolved_hint(name: str, request: BuildRequest) -> str:
    if name.startswith((".", "/")):
        return "Check the path: it is relative to the file that imports it, with its extension."
    package = "/".join(name.split("/")[: 2 if name.startswith("@") else 1])
    folder = request.resource.workdir.relative_to(request.root).as_posix()
    in_folder = "" if folder == "." else f" in {folder}"
    package_file = request.resource.workdir / "package.json"
    try:
        is_declared = f'"{package}"' in package_file.read_text()
    except OSError:
        is_declared = False
    return f"Run `npm install`{in_folder}." if is_declared else f"Run `npm install {package}`{in_folder}."


def evaluation_failure(output: str, mapping: SourceMap, request: BuildRequest) -> BuildFailed:
    """Return the error for a module that failed while it was evaluated for the snapshot."""
    # The notes on the time come from a module that was evaluated, so they do not explain the failure.
    output = _ASKED_FOR_TIME.sub("", output)
    mapped = (mapping.rewrite(line) for line in output.splitlines())
    lines = [line for line in mapped if line and line.strip() and not line.startswith(_TOOL)]
    text = "\n".join(lines)
    position = _POSITION.search(text)
    thrown = next((match for line in lines if (match := _THROWN.match(line))), None)
    message = thrown.group(1) if thrown else lines[-1] if lines else "the engine ended without a message"
    diagnostics: tuple[Diagnostic, ...] = ()
    if position:
        file, line, column = position.group(1), int(position.group(2)), int(position.group(3))
        frame = code_frame(request.root / file, line, column)
        diagnostics = (Diagnostic(message, file, line, column, frame),)
    package = _PACKAGE.match(diagnostics[0].file) if diagnostics else None
    subject = f"the package {package[1]}" if package else "its module"
    return BuildFailed(
        f"resource {request.resource.name}: {subject} fails during loading: {message}",
        "Code at the top level of a module runs once, at build time, without environment or network.",
        diagnostics=diagnostics,
        output=text,
    )


def never_loaded(request: BuildRequest, seconds: float) -> BuildFailed:
    """Return the error for a module that exceeded the loading time limit."""
    return BuildFailed(
        f"resource {request.resource.name}: its module was not loaded within {seconds:g} s",
        "Code at the top level of a module runs once, at build time: check it for endless loops.",
    )


def frozen_time(output: str, mapping: SourceMap) -> str:
    """Return a warning if a module read the time during loading (see `glue/prelude.js`)."""
    match = _ASKED_FOR_TIME.search(output)
    if match is None:
        return ""
    frames = [mapped for line in match.group(1).splitlines() if (mapped := mapping.rewrite(line))]
    position = next((place for frame in frames if (place := _POSITION.search(frame))), None)
    subject = ":".join(position.groups()) + " asks" if position else "the module asks"
    return f"{subject} for the time while it is loaded; that is the year 2000, in every request"
