"""The rust lane: any crate that exports a wasi:http handler, built by the user's own cargo.

cargo caches its work in the crate's own `target`. The component is copied to the cache, so that later builds
do not change an artifact.
"""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildRequest, Tool, ToolchainMissing
from engine.wasm_binary import COMPONENT_HEADER
from lanes.identity import identity
from lanes.prebuilt_component import build_or_take, cache_component
from lanes.rust import SPEC, cargo, toolchain
from lanes.rust.cargo import Messages
from lanes.rust.toolchain import problem

HANDLER = b"wasi:http/incoming-handler@0.2"
_SETTINGS = ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "rust-toolchain", ".cargo/config.toml")
_ESCAPED = re.compile(r"\\(.)")
_BETWEEN = re.compile(r"(?<!\\)\s+")


def copy_component(request: BuildRequest, messages: Messages) -> ComponentArtifact:
    """Copy the one component with a handler into the cache, under its sha256. Raises `BuildFailed`."""
    handlers = []
    for name, path in messages.artifacts:
        data = path.read_bytes()
        if data.startswith(COMPONENT_HEADER) and HANDLER in data:
            handlers.append((name, path, data))
    if len(handlers) == 1:
        _, path, data = handlers[0]
        path_in_cache = cache_component(request.cache / "rust", data)
        return ComponentArtifact(path_in_cache, path_in_cache.stem, inputs=_inputs(request, messages, path))
    if handlers:
        names = ", ".join(sorted(f"{path.name} (package {name})" for name, path, _ in handlers))
        problem = f"more than one component answers requests: {names}"
        hint = "Set `workdir` in svc.toml to the folder of one package with one handler."
    elif messages.artifacts:
        names = ", ".join(path.name for _, path in messages.artifacts)
        problem = f"{names} answers no requests: wasi:http/incoming-handler is not exported"
        hint = "Export a handler: svc_guest::handler!(handle); or use another crate that exports it."
    else:
        problem = "the crate is not built as a runnable component"
        hint = 'Add to its Cargo.toml: [lib] crate-type = ["cdylib"]'
    raise BuildFailed(f"resource {request.resource.name}: {problem}", hint)


def _inputs(request: BuildRequest, messages: Messages, component: Path) -> frozenset[Path]:
    """Return every local source of the component, including cargo settings in the folders around it."""
    paths = set(messages.manifests)
    for folder in {manifest.parent for manifest in messages.manifests} | {request.resource.workdir}:
        inside = [folder, *folder.parents]
        inside = inside[: inside.index(request.root) + 1] if request.root in inside else [folder]
        paths |= {around / name for around in inside for name in _SETTINGS}
    # Output of build scripts must not start another build.
    target = component.parents[2]
    paths |= {path for path in _sources(component.with_suffix(".d")) if not path.is_relative_to(target)}
    return frozenset(Path(os.path.normpath(path)) for path in paths if path.is_file())


def _sources(listing: Path) -> set[Path]:
    """Return the files in cargo's dep-info: a rule of make, with spaces escaped."""
    try:
        rule = listing.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return set()
    _, _, names = rule.partition(": ")
    return {Path(_ESCAPED.sub(r"\1", name)) for name in _BETWEEN.split(names) if name}


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


async def explain(request: BuildRequest, result: Messages) -> BuildFailed | ToolchainMissing:
    """Return the error for a failed run of cargo."""
    name, workdir = request.resource.name, request.resource.workdir
    unusual = "E0463" in result.codes and any(_NO_STD.match(error.message) for error in result.errors)
    if unusual or _TOOLS.search(result.stderr):
        missing = await problem(workdir)
        if missing is not None:
            return missing
    if result.errors:
        count = len(result.errors)
        return BuildFailed(
            f"resource {name} does not compile: {count} error{'s' if count > 1 else ''}",
            diagnostics=tuple(result.errors),
            output="".join(result.rendered),
        )
    first_error = _ERROR.search(result.stderr)
    if first_error:
        message = f"cargo failed: {first_error[1]}"
    elif result.status < 0:
        message = f"cargo was ended by signal {-result.status}"
    else:
        message = f"cargo failed with exit status {result.status}"
    return BuildFailed(f"resource {name}: {message}", _hint(result, request), output=result.stderr)


def _hint(result: Messages, request: BuildRequest) -> str:
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


_WARNINGS_SHOWN = 10


class RustLane:
    """Builds rust resources. `limit_secs` is the time that one run of cargo may take."""

    spec = SPEC

    def __init__(self, limit_secs: float = cargo.LIMIT_SECS) -> None:
        self._limit_secs = limit_secs

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        """Return cargo, rustc and the target, as found from the current folder."""
        return await toolchain.tools(Path.cwd())

    async def install(self, cache: Path, report: Callable[[str], None]) -> None:
        """Raise `ToolchainMissing` if a tool is missing; the user installs Rust."""
        missing = await toolchain.problem(Path.cwd())
        if missing is not None:
            raise missing

    def identity(self, cache: Path) -> str:
        """Return the fingerprint of cargo and rustc, including those behind rustup's proxies."""
        return identity(*toolchain.decisive())

    async def build(self, request: BuildRequest) -> ComponentArtifact:
        return await build_or_take(request, self._build)

    async def _build(self, request: BuildRequest) -> ComponentArtifact:
        workdir = request.resource.workdir
        if not (workdir / "Cargo.toml").is_file():
            raise BuildFailed(
                f"resource {request.resource.name}: there is no Cargo.toml in"
                f" {request.display_path(workdir)}",
                "Create a crate to start with: `svc new NAME --template rust`.",
            )
        program = toolchain.program("cargo")
        if program is None:
            raise await toolchain.problem(workdir) or ToolchainMissing("cargo is not on PATH")
        result = await cargo.build(program, request, self._limit_secs)
        if result.status != 0:
            raise await explain(request, result)
        for warning in result.warnings[:_WARNINGS_SHOWN]:
            position = f"{warning.file}:{warning.line}:{warning.column}"
            request.report(f"{request.resource.name}: {position}: warning: {warning.message}")
        more = len(result.warnings) - _WARNINGS_SHOWN
        if more > 0:
            request.report(f"{request.resource.name}: and {more} more warning{'s' if more > 1 else ''}")
        return await asyncio.to_thread(copy_component, request, result)

    async def aclose(self) -> None:
        """Do nothing: no process runs between builds."""
