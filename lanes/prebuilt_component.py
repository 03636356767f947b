"""Components built by a resource's own `build` command, with any toolchain.

The command runs, `output` is checked and copied into the cache. The engine validates the component later.
"""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

from engine.artifact import ComponentArtifact
from engine.files.atomic import write_atomic
from engine.lane import BuildFailed, BuildRequest
from engine.wasm_binary import COMPONENT_HEADER, MODULE_HEADER
from lanes.process import exclusive, run_build


async def build_or_take(
    request: BuildRequest, build: Callable[[BuildRequest], Awaitable[ComponentArtifact]]
) -> ComponentArtifact:
    """Return the component of a resource, built by its own `build` command or else by its lane.

    Raises `BuildFailed`, and the errors of the lane.
    """
    if request.resource.build is not None:
        return await prebuilt_component(request)
    try:
        return await build(request)
    except OSError as error:
        raise BuildFailed(
            f"resource {request.resource.name} could not be built: {error}",
            "Check the permissions of its files and the free disk space.",
        ) from error


def cache_component(folder: Path, data: bytes) -> Path:
    """Return the path of a component in a cache folder, written there under its sha256 (hex)."""
    path = folder / f"{sha256(data).hexdigest()}.wasm"
    if not path.is_file() or path.read_bytes() != data:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    return path


async def prebuilt_component(request: BuildRequest) -> ComponentArtifact:
    """Run the resource's `build` command and copy the component at `output`. Raises `BuildFailed`."""
    resource = request.resource
    assert resource.output is not None  # guaranteed by manifest validation
    async with exclusive(request):
        await run_build(request)
        return await asyncio.to_thread(_read_output, resource.output, request)


def _read_output(output: Path, request: BuildRequest) -> ComponentArtifact:
    name = request.display_path(output)
    try:
        # Opening a named pipe here would block forever.
        source = open(output, "rb", 0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))  # noqa: SIM115
    except FileNotFoundError:
        raise _refused(request, f"the build command wrote no file {name}") from None
    except IsADirectoryError:
        raise _refused(request, f"{name} is not a file") from None
    except OSError as error:
        raise _refused(request, f"{name} cannot be read: {error.strerror}") from error
    with source:
        if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            raise _refused(request, f"{name} is not a file")
        try:
            start = source.read(len(COMPONENT_HEADER))
            if start == COMPONENT_HEADER:
                path = cache_component(request.cache / "components", start + source.read())
                return ComponentArtifact(path, path.stem)
            start += source.read(256)
        except OSError as error:
            raise BuildFailed(
                f"resource {request.resource.name}: {name} could not be copied to {request.cache}: "
                f"{error.strerror}",
                "Check the free space of the cache folder (SVC_HOME).",
            ) from error
    if start.startswith(MODULE_HEADER):
        raise BuildFailed(
            f"resource {request.resource.name}: {name} is a core WebAssembly module, not a component",
            "Convert it to a component as the last step of `build`, as with "
            "`wasm-tools component new --adapt ADAPTER.wasm IN.wasm -o OUT.wasm`.",
        )
    if start.lstrip().startswith((b"(component", b"(module", b";;", b"(;")):
        raise BuildFailed(
            f"resource {request.resource.name}: {name} is WebAssembly text, not a component's binary",
            "Convert it to a binary in `build`, as with `wasm-tools parse`.",
        )
    raise _refused(request, f"{name} is not a WebAssembly component" if start else f"{name} is empty")


def _refused(request: BuildRequest, problem: str) -> BuildFailed:
    name = request.resource.name
    return BuildFailed(
        f"resource {name}: {problem}",
        f"`build` must write a component there: check its output path, or correct `output` of "
        f"[resource.{name}] in svc.toml.",
    )
