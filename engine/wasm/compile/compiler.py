"""Compiler from components to machine code: a low-priority subprocess and a content-addressed cache.

Serialized code is trusted: svc only loads files that `compile_component` created, in a folder writable by
this user alone.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component

from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.wasm.binary.fast_streams import add_fast_streams
from engine.wasm.binary.memory_image import split_memory
from engine.wasm.binary.memory_probe import add_probe
from engine.wasm.binary.preinit.run import preinitialize
from engine.wasm.compile.check import ComponentRejected, check_component, check_names
from engine.wasm.execution.config import Compiler, code_key, compile_config, compilers
from engine.wasm_binary import UnsupportedBinary

NICENESS = 10
EXIT_REJECTED = 3
"""Exit status of the compiler process for a component that compiles but may not run."""
EXIT_CACHE_ERROR = 4
"""Exit status if the machine code cannot be written; the last line of stderr has the reason."""


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
    if process.returncode == EXIT_REJECTED:
        raise ComponentRejected(*json.loads(stderr.splitlines()[-1]))
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


@contextmanager
def _locked(path: Path):  # type: ignore[no-untyped-def]
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _machine_code(
    engine: Engine, compiler: Compiler, component: bytes, folder: Path, *, ahead: bool
) -> bytes:
    """Return the machine code of a component.

    `ahead` also pre-initializes its runtime if possible. `folder` caches code that components share.
    """
    initialized = preinitialize(component) if ahead else component
    if initialized is component:
        with suppress(UnsupportedBinary, WasmtimeError):
            split = split_memory(component)
            shared = folder / f"code-{hashlib.sha256(split.code).hexdigest()}-{code_key(compiler)}.cwasm"
            with _locked(shared.with_suffix(".lock")):
                if not shared.exists():
                    write_atomic(shared, _compile(engine, split.code))
            return split.with_memory(shared.read_bytes())
    with suppress(WasmtimeError):
        return _compile(engine, initialized)
    return _serialized(engine, component)


def _compile(engine: Engine, component: bytes) -> bytes:
    """Compile a component with svc's additions, or without those that do not fit it."""
    probed = add_probe(component)
    for candidate in (add_fast_streams(probed), probed):
        if candidate is not component:
            with suppress(WasmtimeError):
                return _serialized(engine, candidate)
    return _serialized(engine, component)


def _serialized(engine: Engine, component: bytes) -> bytes:
    compiled = Component(engine, component)
    check_names(compiled.type.imports(engine), compiled.type.exports(engine))
    return bytes(compiled.serialize())


def main(component: str, *targets: str) -> int:
    """Compile one file with the first compiler that accepts it; the entry point of the compiler process.

    `targets` are names of compilers, each followed by its output file.
    """
    for compiler, target in zip(targets[::2], targets[1::2], strict=True):
        out = Path(target)
        with _locked(out.with_suffix(".lock")):
            if out.exists():
                return 0
            engine = Engine(compile_config(Compiler(compiler)))
            try:
                ahead = compiler == targets[0] == Compiler.OPTIMIZING
                binary = Path(component).read_bytes()
                write_atomic(out, _machine_code(engine, Compiler(compiler), binary, out.parent, ahead=ahead))
                return 0
            except ComponentRejected as error:
                print(json.dumps([error.message, error.hint]), file=sys.stderr)
                return EXIT_REJECTED
            except WasmtimeError as error:
                print(" ".join(str(error).split("\n")[:3]), file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except OSError as unwritten:
        print(unwritten.strerror or unwritten, file=sys.stderr)
        sys.exit(EXIT_CACHE_ERROR)
