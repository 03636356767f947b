"""Selection of the resource's component among the files linked by cargo, its cached copy and its sources."""

import os
import re
from pathlib import Path

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildRequest
from engine.wasm_binary import COMPONENT_HEADER
from lanes.prebuilt_component import cache_component
from lanes.rust.messages import Messages

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
    if len(handlers) != 1:
        raise _no_handler(request, messages) if not handlers else _several_handlers(request, handlers)
    _, path, data = handlers[0]
    path_in_cache = cache_component(request.cache / "rust", data)
    return ComponentArtifact(path_in_cache, path_in_cache.stem, inputs=_inputs(request, messages, path))


def _no_handler(request: BuildRequest, messages: Messages) -> BuildFailed:
    name = request.resource.name
    if not messages.artifacts:
        return BuildFailed(
            f"resource {name}: the crate is not built as a runnable component",
            'Add to its Cargo.toml: [lib] crate-type = ["cdylib"]',
        )
    names = ", ".join(path.name for _, path in messages.artifacts)
    return BuildFailed(
        f"resource {name}: {names} answers no requests: wasi:http/incoming-handler is not exported",
        "Export a handler: svc_guest::handler!(handle); or use another crate that exports it.",
    )


def _several_handlers(request: BuildRequest, handlers: list[tuple[str, Path, bytes]]) -> BuildFailed:
    names = ", ".join(sorted(f"{path.name} (package {name})" for name, path, _ in handlers))
    return BuildFailed(
        f"resource {request.resource.name}: more than one component answers requests: {names}",
        "Set `workdir` in svc.toml to the folder of one package with one handler.",
    )


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
