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

from engine.files.sealed import SEAL_BYTES, is_sealed, write_sealed
from engine.wasm.binary.fast_streams import add_fast_streams
from engine.wasm.binary.memory_image import split_memory
from engine.wasm.binary.memory_probe import add_probe
from engine.wasm.binary.preinit.run import preinitialize
from engine.wasm.compile.limits import EXIT_CODE_TOO_LARGE, confine
from engine.wasm.execution.config import EXIT_CACHE_ERROR, Compiler, compile_config
from engine.wasm_binary import UnsupportedBinary

MAX_REASON = 2000
"""Maximum characters of wasmtime's message, which contains names of the component."""


@contextmanager
def _locked(path: Path):  # type: ignore[no-untyped-def]
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _machine_code(engine: Engine, component: bytes, out: Path, *, ahead: bool) -> bytes:
    """Return the machine code of a component.

    `ahead` also pre-initializes its runtime if possible. Code that components share is cached beside `out`,
    `<digest>-<code key>.cwasm`.
    """
    initialized = preinitialize(component) if ahead else component
    if initialized is component:
        with suppress(UnsupportedBinary, WasmtimeError):
            split = split_memory(component)
            key = out.name.partition("-")[2]
            shared = out.with_name(f"code-{hashlib.sha256(split.code).hexdigest()}-{key}")
            with _locked(shared.with_suffix(".lock")):
                if _loads(engine, shared):
                    os.utime(shared)  # Files that are not used are removed.
                else:
                    write_sealed(shared, _compile(engine, split.code))
            return split.with_memory(shared.read_bytes()[:-SEAL_BYTES])
    with suppress(WasmtimeError):
        return _compile(engine, initialized)
    return _serialized(engine, component)


def _loads(engine: Engine, machine_code: Path) -> bool:
    """Return whether a file of machine code is whole, and fits this processor and this wasmtime."""
    with suppress(WasmtimeError):
        return is_sealed(machine_code) and bool(Component.deserialize_file(engine, str(machine_code)))
    return False


def _compile(engine: Engine, component: bytes) -> bytes:
    """Compile a component with svc's additions, or without those that do not fit it."""
    probed = add_probe(component)
    for candidate in (add_fast_streams(probed), probed):
        if candidate is not component:
            with suppress(WasmtimeError):
                return _serialized(engine, candidate)
    return _serialized(engine, component)


def _serialized(engine: Engine, component: bytes) -> bytes:
    return bytes(Component(engine, component).serialize())


def main(max_code: str, component: str, *targets: str) -> int:
    """Compile one file with the first compiler that accepts it; the entry point of the compiler process.

    `max_code` is in bytes. `targets` are names of compilers, each followed by its output file.
    """
    for compiler, target in zip(targets[::2], targets[1::2], strict=True):
        out = Path(target)
        with _locked(out.with_suffix(".lock")):
            engine = Engine(compile_config(Compiler(compiler)))
            if _loads(engine, out):
                return 0
            try:
                ahead = compiler == targets[0] == Compiler.OPTIMIZING
                binary = Path(component).read_bytes()
                code = _machine_code(engine, binary, out, ahead=ahead)
                if len(code) > int(max_code):
                    print(f"its machine code has {len(code):,} bytes", file=sys.stderr)
                    return EXIT_CODE_TOO_LARGE
                write_sealed(out, code)
                return 0
            except WasmtimeError as error:
                print(" ".join(str(error)[:MAX_REASON].split("\n")[:3]), file=sys.stderr)
    return 1


if __name__ == "__main__":
    confine(*map(int, sys.argv[1:3]))
    try:
        sys.exit(main(*sys.argv[3:]))
    except OSError as unwritten:
        print(unwritten.strerror or unwritten, file=sys.stderr)
        sys.exit(EXIT_CACHE_ERROR)
