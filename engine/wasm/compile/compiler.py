"""Process that compiles one component to machine code.

It imports only what compiling needs, because a new process starts for every component.
"""

import fcntl
import hashlib
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component

from engine.files.atomic import write_atomic
from engine.wasm.binary.fast_streams import add_fast_streams
from engine.wasm.binary.memory_image import split_memory
from engine.wasm.binary.memory_probe import add_probe
from engine.wasm.binary.preinit.run import preinitialize
from engine.wasm.execution.config import EXIT_CACHE_ERROR, Compiler, compile_config
from engine.wasm_binary import UnsupportedBinary


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
    return bytes(Component(engine, component).serialize())


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
                write_atomic(out, _machine_code(engine, binary, out, ahead=ahead))
                return 0
            except WasmtimeError as error:
                print(" ".join(str(error).split("\n")[:3]), file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except OSError as unwritten:
        print(unwritten.strerror or unwritten, file=sys.stderr)
        sys.exit(EXIT_CACHE_ERROR)
