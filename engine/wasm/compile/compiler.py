"""Process that compiles one component to machine code, within the limits of `limits.py`.

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

from engine.files.sealed import read_sealed, write_sealed
from engine.wasm.binary.memory_image import split_memory
from engine.wasm.binary.preinit.run import preinitialize
from engine.wasm.compile.compilers import EXIT_CACHE_ERROR, Compiler
from engine.wasm.compile.limits import EXIT_CODE_TOO_LARGE, confine
from engine.wasm.execution.config import compile_config
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


def _machine_code(
    engine: Engine, component: bytes, out: Path, max_code: int, *, preinit: bool
) -> tuple[bytes | memoryview, ...]:
    """Return the machine code of a component, in parts. Raises CodeTooLarge for one above `max_code` bytes.

    `preinit` also pre-initializes its runtime if possible. Code that components share is cached beside `out`,
    `<digest>-<code key>.cwasm`.
    """
    initialized = preinitialize(component) if preinit else component
    if initialized is component:
        component = weave(component)
        with suppress(UnsupportedBinary, WasmtimeError):
            split = split_memory(component)
            key = out.name.partition("-")[2]
            shared = out.with_name(f"code-{hashlib.sha256(split.code).hexdigest()}-{key}")
            with _locked(shared.with_suffix(".lock")):
                machine_code = _loadable(engine, shared)
                if machine_code is not None:
                    os.utime(shared)  # Files that are not used are removed.
                else:
                    machine_code = _compile(engine, split.code, max_code)
                    write_sealed(shared, machine_code)
            return split.with_memory(machine_code)
        return (_compile(engine, component, max_code),)
    with suppress(WasmtimeError):
        return (_compile(engine, weave(initialized), max_code),)
    return (_compile(engine, weave(component), max_code),)


def _loadable(engine: Engine, path: Path) -> bytes | None:
    """Return a file of machine code that is whole and fits this processor and this wasmtime, or `None`."""
    with suppress(WasmtimeError):
        machine_code = read_sealed(path)
        if machine_code is not None and Component.deserialize_file(engine, str(path)):
            return machine_code
    return None


def _compile(engine: Engine, component: bytes, max_code: int) -> bytes:
    """Compile a woven component. Raises WasmtimeError, and CodeTooLarge before anything is stored."""
    machine_code = bytes(Component(engine, component).serialize())
    _check_size(len(machine_code), max_code)
    return machine_code


def _check_size(size: int, max_code: int) -> None:
    if size > max_code:
        raise CodeTooLarge(f"its machine code has {size:,} bytes")


def main(max_code: str, component: str, *targets: str) -> int:
    """Compile one file with the first compiler that accepts it; the entry point of the compiler process.

    `max_code` is in bytes. `targets` are names of compilers, each followed by its output file.
    """
    for compiler, target in zip(targets[::2], targets[1::2], strict=True):
        out = Path(target)
        with _locked(out.with_suffix(".lock")):
            engine = Engine(compile_config(Compiler(compiler)))
            if _loadable(engine, out) is not None:
                return 0
            out.unlink(missing_ok=True)
            try:
                preinit = compiler == targets[0] == Compiler.OPTIMIZING
                binary = Path(component).read_bytes()
                code = _machine_code(engine, binary, out, int(max_code), preinit=preinit)
                _check_size(sum(map(len, code)), int(max_code))  # With the memory, which was split off.
                write_sealed(out, *code)
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
