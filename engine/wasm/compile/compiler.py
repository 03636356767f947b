"""Component -> machine code, in a process of its own, kept in a cache by content.

Serialized code is trusted code: only files that `compile_component` made itself, in a folder that only
this user can write, are ever loaded.
"""

import asyncio
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component

from engine.errors import SvcError
from engine.wasm.binary.fast_streams import add_fast_streams
from engine.wasm.binary.memory_probe import add_probe
from engine.wasm.binary.preinit.run import preinitialize
from engine.wasm.compile.check import ComponentRejected, check_component, check_names
from engine.wasm.execution.config import Compiler, code_key, compile_config, compilers

NICENESS = 10
EXIT_REJECTED = 3
"""Exit status of the compiler's process for a component that compiles and may not run."""
EXIT_CACHE_ERROR = 4
"""Its exit status where the machine code can not be written; the last line says why."""


class CodeCacheError(SvcError):
    """The disk does not take machine code."""

    code = "unavailable"

    def __init__(self, folder: Path, reason: str) -> None:
        said = "the machine code of a component can not be kept"
        super().__init__(
            f"{said} in {folder}: {reason}",
            "Check that the folder can be written and that its disk has room.",
            for_callers=f"{said}: {reason}",
        )


@dataclass(frozen=True, slots=True)
class CompiledComponent:
    """A file of machine code, and which compiler made it."""

    path: Path
    compiler: Compiler


async def compile_component(
    component: Path, digest: str, cache: Path, *, fast: bool, report: Callable[[str], None]
) -> CompiledComponent:
    """Return the compiled form of a component file whose sha256 (hex) is `digest`, from the cache if there.

    Runs the compiler at low priority; two callers at once share one compilation. `fast` takes a third of
    the time, for code at half the speed. Raises `ComponentRejected` when the file does not compile or
    breaks a rule of `check.py`, and `CodeUnkept`.
    """
    folder = cache / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CodeCacheError(folder, error.strerror or str(error)) from error
    wanted = [
        CompiledComponent(folder / f"{digest}-{code_key(name)}.cwasm", name) for name in compilers(fast=fast)
    ]
    if found := next((each for each in wanted if each.path.exists()), None):
        return found
    await asyncio.to_thread(check_component, component)
    report("compiling a component to machine code …")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I" if sys.flags.isolated else "-P", "-m", "engine.wasm.compile.compiler"),
        str(component),
        *(argument for each in wanted for argument in (each.compiler, str(each.path))),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: os.nice(NICENESS),
    )
    try:
        _, complaint = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode == EXIT_REJECTED:
        raise ComponentRejected(*json.loads(complaint.splitlines()[-1]))
    if process.returncode == EXIT_CACHE_ERROR:
        raise CodeCacheError(folder, complaint.splitlines()[-1].decode())
    found = next((each for each in wanted if each.path.exists()), None)
    if found is None:
        reason = complaint.decode(errors="replace").strip() or f"the compiler ended with {process.returncode}"
        raise ComponentRejected(
            f"{component.name} does not compile: {reason.splitlines()[-1]}",
            "It must be a WebAssembly component (not a core module) for WASI 0.2.",
        )
    return found


def load_component(engine: Engine, compiled: Path) -> Component:
    """Map a file that `compile_component` returned."""
    return Component.deserialize_file(engine, str(compiled))


def file_digest(path: Path) -> str:
    """Return the sha256 (hex) of a file."""
    with path.open("rb") as file:
        hasher = sha256()
        while chunk := file.read(1 << 20):
            hasher.update(chunk)
    return hasher.hexdigest()


@contextmanager
def _locked(path: Path):  # type: ignore[no-untyped-def]
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write_atomic(target: Path, data: bytes) -> None:
    file: IO[bytes]
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".compiling-", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            Path(file.name).replace(target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _compile(engine: Engine, component: bytes, *, ahead: bool) -> Component:
    """Compile a component with what is added to it, or without what does not fit it after all.

    `ahead` has its runtime started now, where it can be.
    """
    begun = preinitialize(component) if ahead else component
    probed = add_probe(begun)
    for changed in (add_fast_streams(probed), probed, begun):
        if changed is not component:
            with suppress(WasmtimeError):
                return Component(engine, changed)
    return Component(engine, component)


def main(component: str, *wanted: str) -> int:
    """Compile one file with the first compiler that can; the body of the compiler's process.

    `wanted` are names of compilers, each followed by the file that its code goes to.
    """
    for compiler, target in zip(wanted[::2], wanted[1::2], strict=True):
        out = Path(target)
        with _locked(out.with_suffix(".lock")):
            if out.exists():
                return 0
            engine = Engine(compile_config(Compiler(compiler)))
            try:
                ahead = compiler == wanted[0] == Compiler.OPTIMIZING
                made = _compile(engine, Path(component).read_bytes(), ahead=ahead)
                check_names(made.type.imports(engine), made.type.exports(engine))
                _write_atomic(out, bytes(made.serialize()))
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
