"""Pre-initialization of guests at compile time (as in Wizer).

Starting Go's runtime and library takes half the time of a short request and does not depend on it. So a
core module that exports `svc_freeze` is started when its component is compiled, and every instance starts
from its resulting memory and globals (`module.py`). The guest must fetch all state that may not be shared
between runs when a request arrives: randomness, environment, time of day.

`_initialize` may call only the functions of `_WasiStub`, and runs briefly in the compiler's process. Then
`svc_freeze: func() -> i32` is called and returns 1 if the guest can start from this state. If any condition
fails, the component stays unchanged.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from wasmtime import Engine, Func, FuncType, Instance, Memory, Module, Store, Trap, WasmtimeError

from engine.wasm.binary.preinit.module import FUNCTION, MEMORY, ModuleBinary, ModuleState
from engine.wasm.binary.reader import ComponentOutline, CoreModule, read_outline
from engine.wasm.compile.compilers import compilers
from engine.wasm.execution.config import MIB, TABLE_ELEMENTS, compile_config
from engine.wasm_binary import CORE_MODULE, UnsupportedBinary, section

FREEZE_EXPORT, START_EXPORT, MEMORY_EXPORT = b"svc_freeze", b"_initialize", b"memory"
TIMEOUT_SECONDS = 2.0
MEMORY_MIB = 64
MAX_RANDOM_BYTES = 4096
_EBADF = 8
"""`errno` of WASI 0.1 for a closed file descriptor."""


class _UnsupportedCall(Exception):
    """The guest called a function that needs a request."""


class _WasiStub:
    """WASI 0.1 for a starting runtime: one argument, no variables, no files, clocks at zero."""

    def __init__(self) -> None:
        self._memory: tuple[Store, Memory] | None = None
        self._functions: dict[str, Callable[..., int]] = {
            "args_sizes_get": lambda count, size: self._write_number(count, 1) or self._write_number(size, 4),
            "args_get": lambda pointers, text: (
                self._write_number(pointers, text) or self._write(text, b"app\0")
            ),
            "environ_sizes_get": lambda count, size: (
                self._write_number(count, 0) or self._write_number(size, 0)
            ),
            "clock_time_get": lambda _clock, _precision, time: self._write_number(time, 1, size=8),
            "random_get": self._random,
            "fd_prestat_get": lambda _descriptor, _to: _EBADF,
            "fd_fdstat_get": lambda _descriptor, to: self._write(to, bytes(8) + b"\xff" * 16),
            "fd_fdstat_set_flags": lambda _descriptor, _flags: 0,
        }

    def function(self, function: str | None) -> Callable[..., int]:
        """Return the host function of this name."""
        return self._functions.get(function or "", _unsupported)

    def attach(self, store: Store, memory: Memory) -> None:
        """Set the guest's memory."""
        self._memory = store, memory

    def _random(self, to: int, size: int) -> int:
        if not 0 <= size <= MAX_RANDOM_BYTES:
            raise _UnsupportedCall
        return self._write(to, os.urandom(size))

    def _write_number(self, at: int, number: int, size: int = 4) -> int:
        return self._write(at, (number & 0xFFFFFFFF).to_bytes(size, "little"))

    def _write(self, at: int, data: bytes) -> int:
        if self._memory is None:
            raise _UnsupportedCall
        store, memory = self._memory
        memory.write(store, data, at & 0xFFFFFFFF)
        return 0


def _unsupported(*_: object) -> int:
    raise _UnsupportedCall


def preinitialize(component: bytes) -> bytes:
    """Return the component with its runtime started, or unchanged if that is not possible."""
    if FREEZE_EXPORT not in component:
        return component
    try:
        position = _find_module(component, read_outline(component))
        module = ModuleBinary(component[position.start : position.end])
        preinitialized = section(
            CORE_MODULE, module.with_state(_initialized_state(module), finished=START_EXPORT)
        )
        return component[: position.section] + preinitialized + component[position.end :]
    except (UnsupportedBinary, _UnsupportedCall, WasmtimeError, Trap, LookupError, TypeError, ValueError):
        return component


def _find_module(component: bytes, outline: ComponentOutline) -> CoreModule:
    """Return the position of the only instance of the module. Raises `UnsupportedBinary` otherwise."""
    instances = Counter(outline.modules())
    modules = [each for each in instances if component.find(FREEZE_EXPORT, each.start, each.end) >= 0]
    if len(modules) != 1 or instances[modules[0]] != 1:
        raise UnsupportedBinary("not exactly one instance of one pre-initializable module")
    return modules[0]


def _initialized_state(module: ModuleBinary) -> ModuleState:
    """Start an instance and return its state. Raises `UnsupportedBinary` and `WasmtimeError`."""
    kinds = [module.exports.get(each, (None,))[0] for each in (START_EXPORT, FREEZE_EXPORT, MEMORY_EXPORT)]
    if kinds != [FUNCTION, FUNCTION, MEMORY]:
        raise UnsupportedBinary("module without the required exports")
    binary, variables = module.with_globals_exported()
    engine = Engine(compile_config(compilers(fast=True)[0]))
    compiled, store, answers = Module(engine, binary), Store(engine), _WasiStub()
    store.set_limits(memory_size=MEMORY_MIB * MIB, table_elements=TABLE_ELEMENTS)
    store.set_epoch_deadline(1)
    imports = [(each.name, each.type) for each in compiled.imports]
    functions = [
        Func(store, kind, answers.function(name)) for name, kind in imports if isinstance(kind, FuncType)
    ]
    exports: Any = Instance(store, compiled, functions).exports(store)
    memory = exports[MEMORY_EXPORT.decode()]
    answers.attach(store, memory)
    timeout = threading.Timer(TIMEOUT_SECONDS, engine.increment_epoch)
    timeout.start()
    try:
        exports[START_EXPORT.decode()](store)
        if exports[FREEZE_EXPORT.decode()](store) != 1:
            raise UnsupportedBinary("the guest refused to be frozen")
    finally:
        timeout.cancel()
    values = tuple(exports[each].value(store) for each in variables)
    return ModuleState(bytes(memory.read(store)), values)
