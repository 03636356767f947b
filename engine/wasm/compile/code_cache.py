"""Compiled components: a content-addressed cache on disk, filled by a low-priority subprocess.

Serialized code is trusted: svc only loads files that `compile_component` created, in a folder writable by
this user alone.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wasmtime import Engine
from wasmtime.component import Component

from engine.errors import SvcError
from engine.wasm.compile.check import ComponentRejected, check_component
from engine.wasm.execution.config import EXIT_CACHE_ERROR, Compiler, code_key, compilers

NICENESS = 10


class CodeCacheError(SvcError):
    """The machine code cannot be written to the cache."""

    code = "unavailable"

    def __init__(self, folder: Path, reason: str) -> None:
        summary = "cannot cache the machine code of a component"
        super().__init__(
            f"{summary} in {folder}: {reason}",
            "Check the folder's permissions and the free disk space.",
            public_message=f"{summary}: {reason}",
        )


@dataclass(frozen=True, slots=True)
class CompiledComponent:
    """A file of machine code and the compiler that produced it."""

    path: Path
    compiler: Compiler


async def compile_component(
    component: Path, digest: str, cache: Path, *, fast: bool, report: Callable[[str], None]
) -> CompiledComponent:
    """Return the compiled form of a component file whose sha256 (hex) is `digest`, cached if possible.

    Concurrent callers share one compilation. `fast` takes a third of the time and produces code of half the
    speed. Raises `CodeCacheError`, and `ComponentRejected` if the file does not compile or breaks a rule of
    `check.py`.
    """
    folder = cache / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CodeCacheError(folder, error.strerror or str(error)) from error
    targets = [
        CompiledComponent(folder / f"{digest}-{code_key(name)}.cwasm", name) for name in compilers(fast=fast)
    ]
    if cached := next((each for each in targets if each.path.exists()), None):
        return cached
    await asyncio.to_thread(check_component, component)
    report("compiling a component to machine code …")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I" if sys.flags.isolated else "-P",
        "-m",
        "engine.wasm.compile.compiler",
        str(component),
        *(argument for each in targets for argument in (each.compiler, str(each.path))),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: os.nice(NICENESS),
    )
    try:
        _, stderr = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode == EXIT_CACHE_ERROR:
        raise CodeCacheError(folder, stderr.splitlines()[-1].decode())
    compiled = next((each for each in targets if each.path.exists()), None)
    if compiled is None:
        reason = stderr.decode(errors="replace").strip() or f"the compiler exited with {process.returncode}"
        raise ComponentRejected(
            f"{component.name} does not compile: {reason.splitlines()[-1]}",
            "Build a WebAssembly component (not a core module) for WASI 0.2.",
        )
    return compiled


def load_component(engine: Engine, compiled: Path) -> Component:
    """Map a file returned by `compile_component`."""
    return Component.deserialize_file(engine, str(compiled))
