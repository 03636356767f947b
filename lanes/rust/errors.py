"""Errors of cargo, classified as errors of the sources or of the machine."""

import re

from engine.lane import BuildFailed, BuildRequest, ToolchainMissing
from lanes.rust.cargo import Finished
from lanes.rust.toolchain import problem

_NO_STD = re.compile(r"can't find crate for `(?:std|core|alloc)`")
_TOOLS = re.compile(
    r"could not find specification for target|target may not be installed|toolchain .* is not installed|"
    r"rustup could not choose|no such command|could not execute process .*rustc|requires rustc|"
    r"rustc .* is not supported by the following package"
)
_NETWORK = re.compile(
    r"[Cc]ould not resolve host|network failure|spurious network error|failed to (?:download|fetch)|"
    r"unable to update registry|unable to get packages from source|download of .* failed|--offline|"
    r"you're using offline mode|failed to query replaced source"
)
_READ_ONLY = re.compile(r"Read-only file system|Permission denied|failed to create directory|No space left")
_ERROR = re.compile(r"^error(?:\[\w+\])?: (.*)$", re.MULTILINE)


async def explain(request: BuildRequest, result: Finished) -> BuildFailed | ToolchainMissing:
    """Return the error for a failed run of cargo."""
    name, workdir = request.resource.name, request.resource.workdir
    messages = result.messages
    unusual = "E0463" in messages.codes and any(_NO_STD.match(error.message) for error in messages.errors)
    if unusual or _TOOLS.search(result.stderr):
        missing = await problem(workdir)
        if missing is not None:
            return missing
    if messages.errors:
        count = len(messages.errors)
        return BuildFailed(
            f"resource {name} does not compile: {count} error{'s' if count > 1 else ''}",
            diagnostics=tuple(messages.errors),
            output="".join(messages.rendered),
        )
    first_error = _ERROR.search(result.stderr)
    message = (
        f"resource {name}: cargo failed: {first_error[1]}"
        if first_error
        else _status_text(name, result.status)
    )
    return BuildFailed(message, _hint(result, request), output=result.stderr)


def timeout_error(request: BuildRequest, limit_secs: float, output: str) -> BuildFailed:
    """Return the error for a run that exceeded its time limit."""
    name = request.resource.name
    return BuildFailed(
        f"resource {name}: cargo did not end within {limit_secs / 60:g} minutes and was stopped",
        "Check the build scripts: one that waits never ends. A new build continues with the compiled crates.",
        output=output,
    )


def _status_text(name: str, status: int) -> str:
    if status < 0:
        return f"resource {name}: cargo was ended by signal {-status}"
    return f"resource {name}: cargo failed with exit status {status}"


def _hint(result: Finished, request: BuildRequest) -> str:
    if _NETWORK.search(result.stderr):
        return (
            "A crate has to be downloaded and could not be. Run `cargo fetch` while the machine is online, "
            "or add the crates to the project with `cargo vendor`."
        )
    if _READ_ONLY.search(result.stderr):
        return (
            "cargo writes to the folder target beside Cargo.lock: make it writable, free some space, or set "
            "CARGO_TARGET_DIR."
        )
    if result.status in (-9, 137):
        return "SIGKILL often means that the machine ran out of memory."
    return f"Run `cargo build --target wasm32-wasip2` in {request.resource.workdir} to see more."
