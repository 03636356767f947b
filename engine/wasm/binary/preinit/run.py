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
from engine.wasm.binary.preinit.module import FUNCTION, MEMORY, ModuleBinary, State
from engine.wasm.binary.reader import CoreModule, Outline, Unscannable, scan
from engine.wasm.binary.writer import section
from engine.wasm.execution.config import MIB, compile_config, compilers

FREEZE, START, BYTES = b"svc_freeze", b"_initialize", b"memory"
SECONDS = 2.0
MEMORY_MIB = 64
TABLE_ELEMENTS = 60_000
MOST_RANDOM = 4096
_NOT_OPEN = 8
"""`errno` of WASI 0.1 for a file descriptor that is not open."""


class _Unanswered(Exception):
    """The guest asks what only a request's run can answer."""


class _Answers:
    """What WASI 0.1 says to a runtime that starts: an argument, no variables, no files, clocks at zero."""

    def __init__(self) -> None:
        self._memory: tuple[Store, Memory] | None = None
        self._known: dict[str, Callable[..., int]] = {
            "args_sizes_get": lambda count, size: self._number(count, 1) or self._number(size, 4),
            "args_get": lambda pointers, text: self._number(pointers, text) or self._put(text, b"app\0"),
            "environ_sizes_get": lambda count, size: self._number(count, 0) or self._number(size, 0),
            "clock_time_get": lambda _clock, _precision, time: self._number(time, 1, size=8),
            "random_get": self._random,
            "fd_prestat_get": lambda _descriptor, _to: _NOT_OPEN,
            "fd_fdstat_get": lambda _descriptor, to: self._put(to, bytes(8) + b"\xff" * 16),
            "fd_fdstat_set_flags": lambda _descriptor, _flags: 0,
        }

    def of(self, function: str | None) -> Callable[..., int]:
        """Return the host function of this name."""
        return self._known.get(function or "", _unanswered)

    def begin(self, store: Store, memory: Memory) -> None:
        """Hear where the guest's memory is."""
        self._memory = store, memory

    def _random(self, to: int, size: int) -> int:
        if not 0 <= size <= MOST_RANDOM:
            raise _Unanswered
        return self._put(to, os.urandom(size))

    def _number(self, at: int, number: int, size: int = 4) -> int:
        return self._put(at, (number & 0xFFFFFFFF).to_bytes(size, "little"))

    def _put(self, at: int, data: bytes) -> int:
        if self._memory is None:
            raise _Unanswered
        store, memory = self._memory
        memory.write(store, data, at & 0xFFFFFFFF)
        return 0


def _unanswered(*_: object) -> int:
    raise _Unanswered


def add_snapshot(component: bytes) -> bytes:
    """Return the component with its runtime started, or as it is where that can not be."""
    if FREEZE not in component:
        return component
    try:
        place = _place(component, scan(component))
        module = ModuleBinary(component[place.start : place.end])
        begun = section(CORE_MODULE, module.preset(_state(module), done=START))
        return component[: place.section] + begun + component[place.end :]
    except (Unscannable, _Unanswered, WasmtimeError, Trap, LookupError, TypeError, ValueError):
        return component


def _place(component: bytes, outline: Outline) -> CoreModule:
    """Return where the module stands. Raises `Unscannable` where not one instance of one is made."""
    places = [each for each in outline.modules() if component.find(FREEZE, each.start, each.end) >= 0]
    if len(places) != 1:
        raise Unscannable("not one instance of one module that can be started")
    return places[0]


def _state(module: ModuleBinary) -> State:
    """Start an instance and return what it has become. Raises `WasmtimeError`, among others."""
    kinds = [module.exports.get(each, (None,))[0] for each in (START, FREEZE, BYTES)]
    if kinds != [FUNCTION, FUNCTION, MEMORY]:
        raise Unscannable("a module without what starts it")
    binary, variables = module.shown()
    engine = Engine(compile_config(compilers(fast=True)[0]))
    compiled, store, answers = Module(engine, binary), Store(engine), _Answers()
    store.set_limits(memory_size=MEMORY_MIB * MIB, table_elements=TABLE_ELEMENTS)
    store.set_epoch_deadline(1)
    imports = [(each.name, each.type) for each in compiled.imports]
    asked = [Func(store, kind, answers.of(name)) for name, kind in imports if isinstance(kind, FuncType)]
    exports: Any = Instance(store, compiled, asked).exports(store)
    memory = exports[BYTES.decode()]
    answers.begin(store, memory)
    over = threading.Timer(SECONDS, engine.increment_epoch)
    over.start()
    try:
        exports[START.decode()](store)
        if exports[FREEZE.decode()](store) != 1:
            raise Unscannable("a guest that does not go on from there")
    finally:
        over.cancel()
    values = tuple(exports[each].value(store) for each in variables)
    return State(bytes(memory.read(store)), values)
