"""Compiled components: a content-addressed cache on disk, filled by a low-priority subprocess.

Serialized code is trusted: svc only loads files that `compile_component` created, in a folder writable by
this user alone. Each file ends with a digest. A file that is not whole is compiled again.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.confinement import python_module
from engine.errors import SvcError
from engine.files.sealed import is_sealed
from engine.wasm.compile.compilers import (
    CPU_SECONDS,
    EXIT_CACHE_ERROR,
    EXIT_CODE_TOO_LARGE,
    MAX_CODE_BYTES,
    MEMORY_BYTES,
    WALL_SECONDS,
    Compiler,
    code_key,
    compilers,
)
from engine.wasm.compile.component_file import ComponentRejected
from engine.wasm.compile.image_file import MemoryImage, find_code, image_file, read_image

MARK_SECONDS = 3600.0
"""Accuracy of the times when files were used."""
_OUT_OF_MEMORY = ("memory allocation of", "MemoryError", "Cannot allocate memory")
"""Signs of the compiler's memory limit: of Rust, Python and the system."""


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
    """A file of machine code, the compiler that produced it, and the initial memory if that is separate."""

    path: Path
    compiler: Compiler
    image: MemoryImage | None = None


async def compile_component(
    component: Path,
    digest: str,
    cache: Path,
    *,
    fast: bool,
    report: Callable[[str], None],
    slots: asyncio.Semaphore | None = None,
    verify: bool = True,
) -> CompiledComponent:
    """Return the compiled form of a component file (`read_component`), cached if possible.

    `digest` is the sha256 (hex) of the component.

    Concurrent callers share one compilation; `slots` bounds the compilations at once. `fast` takes a third of
    the time and produces code of half the speed. `verify` reads a cached file to find damage, which a caller
    that loads it needs. Raises `CodeCacheError`, and `ComponentRejected` if the file does not compile within
    the limits or breaks a rule of `check.py`.
    """
    folder = cache / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CodeCacheError(folder, error.strerror or str(error)) from error
    targets = _targets(folder, digest, fast=fast)
    if cached := await asyncio.to_thread(_first_cached, targets, folder, verify=verify):
        return cached
    # Imported on demand: it imports all host functions.
    from engine.wasm.compile.check import check_component

    await asyncio.to_thread(check_component, component, digest)
    slots = slots or asyncio.Semaphore(1)
    if slots.locked():
        report("waiting for other compilations …")
    async with slots:
        report("compiling a component to machine code …")
        try:
            status, output = await _run_compiler(component, digest, targets)
        except OSError as error:
            raise CodeCacheError(folder, error.strerror or str(error)) from error
    lines = output.strip().splitlines()
    if status == EXIT_CACHE_ERROR:
        raise CodeCacheError(folder, lines[-1])
    # A compiler that succeeded has verified its output and removed damaged files.
    compiled = await asyncio.to_thread(_first_cached, targets, folder, verify=status != 0)
    if compiled is None:
        raise _rejection(component.name, status, lines)
    return compiled


def is_compiled(cache: Path, digest: str, *, verify: bool) -> bool:
    """Return whether the machine code of a component exists, and is whole if `verify`.

    Raises `CodeCacheError` if it cannot be read.
    """
    folder = cache / "compiled"
    return _first_cached(_targets(folder, digest, fast=False), folder, verify=verify) is not None


def _targets(folder: Path, digest: str, *, fast: bool) -> list[CompiledComponent]:
    return [
        CompiledComponent(folder / f"{digest}-{code_key(name)}.cwasm", name) for name in compilers(fast=fast)
    ]


async def _run_compiler(
    component: Path, digest: str, targets: Sequence[CompiledComponent]
) -> tuple[int | None, str]:
    """Run the compiler process; return its exit status, `None` after `WALL_SECONDS`, and its errors."""
    process = await asyncio.create_subprocess_exec(
        *python_module("engine.wasm.compile.compiler"),
        str(CPU_SECONDS),
        str(MEMORY_BYTES),
        str(MAX_CODE_BYTES),
        str(component),
        digest,
        *(argument for each in targets for argument in (each.compiler, str(each.path))),
        stdin=asyncio.subprocess.PIPE,  # Open while this process lives.
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(WALL_SECONDS):
            output = await process.stderr.read()
            return await process.wait(), output.decode(errors="replace")
    except TimeoutError:
        return None, ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _rejection(name: str, status: int | None, lines: Sequence[str]) -> ComponentRejected:
    """Return the error for a compiler process that wrote no machine code."""
    hint = "Split large functions, and leave out code that the component does not use."
    if status is None or status == -signal.SIGXCPU:
        seconds = f"{CPU_SECONDS} s of CPU time" if status is not None else f"{WALL_SECONDS} s"
        reason = f" within {seconds}"
    elif any(sign in line for line in lines for sign in _OUT_OF_MEMORY):
        reason = f" within {MEMORY_BYTES >> 20} MiB of memory"
    elif status == EXIT_CODE_TOO_LARGE:
        reason = f": {lines[-1]}; the maximum is {MAX_CODE_BYTES >> 20} MiB"
    elif status < 0:
        reason = f": signal {-status} ended the compiler"
        hint = "Check the free memory of this machine, then try again."
    else:
        reason = f": {lines[-1] if lines else f'the compiler exited with {status}'}"
        hint = "Build a WebAssembly component (not a core module) for WASI 0.2, within the limits of svc."
        if "several components" in reason:
            hint = "Link the parts before the component is built, or make each part a resource."
    return ComponentRejected(f"{name} does not compile{reason}", hint)


def _first_cached(
    targets: Sequence[CompiledComponent], folder: Path, *, verify: bool
) -> CompiledComponent | None:
    """Return the first file that exists, and is whole if `verify`; mark it as used."""
    for target in targets:
        try:
            if (found := find_code(target.path, Path.exists)) is None:
                continue
            path, image = found
            for used in (path, image_file(target.path), *([image.base] if image else ())):
                with suppress(OSError):  # A file with a new time is verified again.
                    if time.time() - used.stat().st_mtime > MARK_SECONDS:
                        os.utime(used)
            if not verify or (found := find_code(target.path, is_sealed)) is not None:
                path, image = found
                return replace(target, path=path, image=image)
        except OSError as error:
            raise CodeCacheError(folder, error.strerror or str(error)) from error
    return None


def remove_code(cache: Path, digest: str) -> None:
    """Remove the files of a compiled component, except code that others share. Does not raise."""
    folder = cache / "compiled"
    for path in (*folder.glob(f"{digest}-*"), *folder.glob(f".{digest}-*")):
        with suppress(OSError):
            path.unlink()


def evict_code(cache: Path, needed: Container[str], before_ns: int, *, count_only: bool = False) -> int:
    """Remove, or only count, files of machine code that were not used since `before_ns` (Unix epoch).

    Those of components with a `needed` digest stay if this svc can load them, with the code that they share.
    Partial files of killed compilers and images of an earlier svc count too. Returns the number of files.
    Raises `CodeCacheError`.
    """
    folder, evicted = cache / "compiled", 0
    loadable = tuple(f"-{code_key(compiler)}" for compiler in Compiler)
    try:
        files = [path for kind in ("cwasm", "pages", "memory") for path in folder.glob(f"*.{kind}")]
        stay = {
            path for path in files if path.stem.endswith(loadable) and path.name.partition("-")[0] in needed
        }
        images = [path for path in stay if path.suffix == ".pages"]
        used = [image for image in map(read_image, images) if image is not None]
        stay |= {path for image in used for path in (image.code, image.base)}
        for path in [*files, *folder.glob("*.image"), *folder.glob(".*.tmp")]:
            with suppress(FileNotFoundError):  # A compiler has renamed its partial file.
                if path in stay or path.stat().st_mtime_ns >= before_ns:
                    continue
                if not count_only:
                    path.unlink()
                    path.with_suffix(".lock").unlink(missing_ok=True)
                evicted += 1
    except OSError as error:
        raise CodeCacheError(folder, error.strerror or str(error)) from error
    return evicted
