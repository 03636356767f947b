"""Process that compiles one component to machine code, within the limits of `compilers.py`.

It imports only what compiling needs, because a new process starts for every component.
"""

import fcntl
import hashlib
import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component

from engine.files.sealed import is_sealed, write_sealed
from engine.wasm.binary.memory_image import split_memory, without_code
from engine.wasm.binary.preinit import preinitialize
from engine.wasm.binary.reader import declared_limits
from engine.wasm.compile.compilers import EXIT_CACHE_ERROR, EXIT_CODE_TOO_LARGE, Compiler, confine
from engine.wasm.compile.component_file import read_component
from engine.wasm.compile.image_file import code_file, find_code, image_file, write_image
from engine.wasm.execution.config import PoolSettings, create_engine
from engine.wasm.weave.weaver import weave
from engine.wasm_binary import UnsupportedBinary

MAX_REASON = 2000
"""Maximum characters of wasmtime's message, which contains names of the component."""


class CodeTooLarge(Exception):
    """The machine code of a component exceeds the limit."""


@contextmanager
def _locked(path: Path):  # type: ignore[no-untyped-def]
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compile_to(engine: Engine, component: bytes, out: Path, max_code: int, *, preinit: bool) -> None:
    """Compile a component to the file `out`. Raises CodeTooLarge for more than `max_code` bytes.

    `preinit` also checks that it is valid and within the limits, before its functions are compiled, and
    pre-initializes its runtime if possible. Raises UnsupportedBinary and WasmtimeError.
    """
    checked, initialized = (component, preinitialize(component)) if preinit else (None, component)
    if initialized is not component:
        with suppress(WasmtimeError):
            _write(engine, component, weave(initialized), out, max_code, checked=checked)
            return
    _write(engine, component, weave(component), out, max_code, checked=checked)


def _write(
    engine: Engine, component: bytes, woven: bytes, out: Path, max_code: int, *, checked: bytes | None
) -> None:
    """Compile a woven component: to a file of its own, or to an initial memory and code that it shares.

    `checked` is the component before, if its code is not known to be valid.
    """
    with suppress(UnsupportedBinary, WasmtimeError):
        split, declared = split_memory(woven), declared_limits(component)
        shared = code_file(out, hashlib.sha256(split.code).digest())
        with _locked(shared.with_suffix(".lock")):
            if is_sealed(shared) and _loads(engine, shared):
                os.utime(shared)  # Files that are not used are removed.
            else:
                write_sealed(shared, _compile(engine, checked, split.code, max_code - len(split.image)))
            write_image(out, split, declared)
        return
    write_sealed(out, _compile(engine, checked, woven, max_code))


def _loads(engine: Engine, path: Path) -> bool:
    """Return whether a whole file of machine code fits this processor and this wasmtime."""
    with suppress(WasmtimeError):
        return Component.deserialize_file(engine, str(path)) is not None
    return False


def _compile(engine: Engine, checked: bytes | None, woven: bytes, max_code: int) -> bytes:
    """Check a component and compile the woven one. Raises WasmtimeError and CodeTooLarge."""
    if checked is not None:
        Component(engine, without_code(checked))
    machine_code = bytes(Component(engine, woven).serialize())
    if len(machine_code) > max_code:
        raise CodeTooLarge(f"its machine code has {len(machine_code):,} bytes")
    return machine_code


def main(max_code: str, component: str, digest: str, *targets: str) -> int:
    """Compile one file with the first compiler that accepts it; the entry point of the compiler process.

    `max_code` is in bytes, `digest` that of the component (`read_component`). `targets` are names of
    compilers, each followed by its output file.
    """
    for compiler, target in zip(targets[::2], targets[1::2], strict=True):
        out = Path(target)
        with _locked(out.with_suffix(".lock")):
            # Only an engine with a pool checks the limits of a component.
            engine = create_engine(Compiler(compiler), 1, PoolSettings().memory_mib, warm=False)
            found = find_code(out, is_sealed)
            if found is not None and _loads(engine, found[0]):
                return 0
            out.unlink(missing_ok=True)
            image_file(out).unlink(missing_ok=True)
            try:
                preinit = compiler == targets[0] == Compiler.OPTIMIZING
                binary = read_component(Path(component), digest)
                compile_to(engine, binary, out, int(max_code), preinit=preinit)
                return 0
            except CodeTooLarge as error:
                print(error, file=sys.stderr)
                return EXIT_CODE_TOO_LARGE
            except UnsupportedBinary as error:
                print(f"the component has a structure that svc cannot run: {error}", file=sys.stderr)
            except WasmtimeError as error:
                print(" ".join(str(error)[:MAX_REASON].split()), file=sys.stderr)
    return 1


if __name__ == "__main__":
    confine(*map(int, sys.argv[1:3]))
    try:
        sys.exit(main(*sys.argv[3:]))
    except OSError as unwritten:
        print(unwritten.strerror or unwritten, file=sys.stderr)
        sys.exit(EXIT_CACHE_ERROR)
