"""Starts a guest's runtime ahead of its requests, where the guest says that it can go on from there.

Go's runtime and its library take half a short request to start, and nothing in that depends on the request.
So a core module that exports `svc_freeze` is started when its component is compiled, and what its memory
and variables have become is what every instance begins with (`preset.py`). Whatever must not be the same in
two runs is the guest's to fetch when a request comes: randomness, environment, time of day.

`_initialize` may ask what `_Answers` has and nothing else, and runs for a moment in the compiler's process.
`svc_freeze: func() -> i32` is called next and says by a 1 that the guest will go on from there.
A component of which anything here is not true is left as it is.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

from wasmtime import Engine, Func, FuncType, Instance, Memory, Module, Store, Trap, WasmtimeError

from engine.wasm.binary.append import CORE_MODULE
from engine.wasm.binary.preinit.module import FUNCTION, MEMORY, ModuleBinary, ModuleState
from engine.wasm.binary.reader import ComponentOutline, CoreModule, UnsupportedBinary, read_outline
from engine.wasm.binary.writer import section
from engine.wasm.execution.config import MIB, compile_config, compilers

FREEZE_EXPORT, START_EXPORT, MEMORY_EXPORT = b"svc_freeze", b"_initialize", b"memory"
TIMEOUT_SECONDS = 2.0
MEMORY_MIB = 64
TABLE_ELEMENTS = 60_000
MAX_RANDOM_BYTES = 4096
_EBADF = 8
"""`errno` of WASI 0.1 for a file descriptor that is not open."""


class _UnsupportedCall(Exception):
    """The guest asks what only a request's run can answer."""


class _WasiStub:
    """What WASI 0.1 says to a runtime that starts: an argument, no variables, no files, clocks at zero."""

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
        """Hear where the guest's memory is."""
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
    """Return the component with its runtime started, or as it is where that can not be."""
    if FREEZE_EXPORT not in component:
        return component
    try:
        place = _find_module(component, read_outline(component))
        module = ModuleBinary(component[place.start : place.end])
        begun = section(CORE_MODULE, module.with_state(_initialized_state(module), finished=START_EXPORT))
        return component[: place.section] + begun + component[place.end :]
    except (UnsupportedBinary, _UnsupportedCall, WasmtimeError, Trap, LookupError, TypeError, ValueError):
        return component


def _find_module(component: bytes, outline: ComponentOutline) -> CoreModule:
    """Return where the module stands. Raises `Unscannable` where not one instance of one is made."""
    places = [each for each in outline.modules() if component.find(FREEZE_EXPORT, each.start, each.end) >= 0]
    if len(places) != 1:
        raise UnsupportedBinary("not one instance of one module that can be started")
    return places[0]


def _initialized_state(module: ModuleBinary) -> ModuleState:
    """Start an instance and return what it has become. Raises `WasmtimeError`, among others."""
    kinds = [module.exports.get(each, (None,))[0] for each in (START_EXPORT, FREEZE_EXPORT, MEMORY_EXPORT)]
    if kinds != [FUNCTION, FUNCTION, MEMORY]:
        raise UnsupportedBinary("a module without what starts it")
    binary, variables = module.with_globals_exported()
    engine = Engine(compile_config(compilers(fast=True)[0]))
    compiled, store, answers = Module(engine, binary), Store(engine), _WasiStub()
    store.set_limits(memory_size=MEMORY_MIB * MIB, table_elements=TABLE_ELEMENTS)
    store.set_epoch_deadline(1)
    imports = [(each.name, each.type) for each in compiled.imports]
    asked = [
        Func(store, kind, answers.function(name)) for name, kind in imports if isinstance(kind, FuncType)
    ]
    exports: Any = Instance(store, compiled, asked).exports(store)
    memory = exports[MEMORY_EXPORT.decode()]
    answers.attach(store, memory)
    over = threading.Timer(TIMEOUT_SECONDS, engine.increment_epoch)
    over.start()
    try:
        exports[START_EXPORT.decode()](store)
        if exports[FREEZE_EXPORT.decode()](store) != 1:
            raise UnsupportedBinary("a guest that does not go on from there")
    finally:
        over.cancel()
    values = tuple(exports[each].value(store) for each in variables)
    return ModuleState(bytes(memory.read(store)), values)
