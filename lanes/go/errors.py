"""Errors of `go build`, parsed from its output, with hints for the author of the program."""

import re
from pathlib import Path

from engine.lane import BuildFailed, BuildRequest, Diagnostic

_POSITION = re.compile(r"^(?:vet: )?(?P<file>\S.*?\.go):(?P<line>\d+)(?::(?P<column>\d+))?: (?P<message>.*)$")
_NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|connection refused|module lookup disabled|proxyconnect|"
    r"TLS handshake|temporary failure in name resolution|502 Bad Gateway|503 Service"
)
_GET = re.compile(r"^\s*(go get \S+|go mod \S+.*)$", re.MULTILINE)
_NEWER = re.compile(r"requires go >= (?P<wanted>[\w.]+) \(running go (?P<used>[\w.]+)")
_NO_ROOM = re.compile(r"no space left on device|read-only file system|file too large|disk quota")
_MAX_DIAGNOSTICS = 20


def explain(request: BuildRequest, output: str) -> BuildFailed:
    """Return the error for a `go build` that failed."""
    name = request.resource.name
    errors = diagnostics(request, output)
    if _NO_ROOM.search(output):
        return BuildFailed(
            f"resource {name} could not be built: the disk is full or read-only",
            "Free some space for Go's cache (`go env GOCACHE`) and svc's cache (SVC_HOME).",
            output=output,
        )
    if _NETWORK.search(output):
        return BuildFailed(
            f"resource {name}: a module has to be downloaded and could not be",
            "Run `go mod download` in its folder while the machine is online.",
            output=output,
        )
    if newer := _NEWER.search(output):
        return BuildFailed(
            f"resource {name} needs Go {newer['wanted']}, and {newer['used']} is used",
            "Install a newer `go` on PATH, or lower the version in go.mod and in those of its modules.",
            output=output,
        )
    if command := _GET.search(output):
        return BuildFailed(
            f"resource {name} needs a module that its go.mod does not name",
            f"Run `{command[1]}` in {request.display_path(request.resource.workdir)}.",
            diagnostics=errors,
            output=output,
        )
    if "is not a main package" in output or "requires exactly one main package" in output:
        return BuildFailed(
            f"resource {name}: {request.display_path(request.resource.workdir)} has no main package",
            "Set `workdir` in svc.toml to the folder of `package main`, whose main calls guest.Serve.",
            output=output,
        )
    if errors:
        count = len(errors)
        return BuildFailed(
            f"resource {name} does not compile: {count} error{'s' if count > 1 else ''}",
            diagnostics=errors,
            output=output,
        )
    return BuildFailed(
        f"resource {name} does not build", f"`go build` said:\n{output.strip()}", output=output
    )


def diagnostics(request: BuildRequest, output: str) -> tuple[Diagnostic, ...]:
    """Return the diagnostics with positions, each with its continuation lines."""
    result: list[Diagnostic] = []
    for line in output.splitlines():
        match = _POSITION.match(line)
        if match is None:
            continue
        if len(result) == _MAX_DIAGNOSTICS:
            break
        path = Path(match["file"])
        file = request.resource.workdir / path
        result.append(
            Diagnostic(
                match["message"],
                request.display_path(file.resolve()),
                int(match["line"]),
                int(match["column"] or 0),
                _frame(file, int(match["line"]), int(match["column"] or 0)),
            )
        )
    return tuple(result)


def _frame(file: Path, line: int, column: int) -> str:
    """Return the line of a diagnostic with a mark below its column, which Go counts in bytes."""
    try:
        text = file.read_bytes().splitlines()[line - 1]
    except (OSError, IndexError):
        return ""
    number = f"{line:>5} │ "
    source = text.decode(errors="replace").replace("\t", "    ").rstrip()
    if not column:
        return number + source
    indent = text[: column - 1].decode(errors="replace").replace("\t", "    ")
    return f"{number}{source}\n{' ' * 6}│ {' ' * len(indent)}^"
