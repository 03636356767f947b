"""Pre-initialization of guests at compile time (as in Wizer).

Starting Go's runtime and library takes half the time of a short request and does not depend on it. So a
core module that exports `svc_freeze` is started when its component is compiled, and every instance starts
from its resulting memory and globals. The guest must fetch all state that may not be shared
between runs when a request arrives: randomness, environment, time of day.

`_initialize` may call only the functions of `_WasiStub`, and runs briefly in the compiler's process. Then
`svc_freeze: func() -> i32` is called and returns 1 if the guest can start from this state. If any condition
fails, the component stays unchanged: also if the module could have more state (mutable tables, imported
memories, passive segments). Source: the WebAssembly core specification, binary format of modules.
"""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wasmtime import Engine, Func, FuncType, Instance, Memory, Module, Store, Trap, WasmtimeError

from engine.wasm.binary.reader import PAGE_BYTES, read_memories, read_outline
from engine.wasm.compile.compilers import compilers
from engine.wasm.execution.config import MIB, TABLE_ELEMENTS, compile_config
from engine.wasm_binary import (
    CODE,
    CORE_MODULE,
    DATA,
    DATA_COUNT,
    END,
    EXPORTS,
    FUNCTION,
    FUNCTIONS,
    GLOBAL,
    I32_CONST,
    IMPORTS,
    MEMORIES,
    MEMORY,
    MODULE_HEADER,
    BinaryReader,
    UnsupportedBinary,
    count_imported_functions,
    data_segment,
    name,
    read_data,
    read_exports,
    read_sections,
    replace_sections,
    section,
    sleb,
    uleb,
    vector,
)

FREEZE_EXPORT, START_EXPORT, MEMORY_EXPORT = b"svc_freeze", b"_initialize", b"memory"
TIMEOUT_SECONDS = 2.0
MEMORY_MIB = 64
MAX_RANDOM_BYTES = 4096
_EBADF = 8
"""`errno` of WASI 0.1 for a closed file descriptor."""
_GLOBALS, _START = 6, 8
_I64_CONST = 0x42
_CONSTANTS = {0x7F: I32_CONST, 0x7E: _I64_CONST}
"""The constant instruction of each integer type."""
_EMPTY_FUNCTION = b"\x02\x00\x0b"
"""The code of an empty function, with its size as prefix."""
# A run of zeros splits a segment in two only if it is longer than the overhead of a segment.
_NONZERO_RUN = re.compile(rb"[^\0](?:[^\0]|\0{1,32}(?=[^\0]))*")


@dataclass(frozen=True, slots=True)
class _GlobalVariable:
    kind: int
    mutable: bool
    initial: bytes


class ModuleBinary:
    """A core module with one memory of its own."""

    def __init__(self, binary: bytes) -> None:
        """Parse a module. Raises `UnsupportedBinary`."""
        self._sections = list(read_sections(binary))
        bodies = dict(self._sections)
        if _START in bodies or DATA not in bodies:
            raise UnsupportedBinary("module with a start function or without data")
        self._imported = count_imported_functions(BinaryReader(bodies.get(IMPORTS, b"\0")))
        functions = BinaryReader(bodies.get(FUNCTIONS, b"\0"))
        self._types = [functions.uleb() for _ in range(functions.uleb())]
        memories = read_memories(binary)
        if len(memories) != 1 or memories[0].index_type != "i32":
            raise UnsupportedBinary("not exactly one 32-bit memory")
        self._maximum = memories[0].maximum
        self._global_variables = list(_read_globals(BinaryReader(bodies.get(_GLOBALS, b"\0"))))
        self.exports = read_exports(bodies.get(EXPORTS, b"\0"))
        for _ in read_data(bodies[DATA]):  # raises for a segment of another kind
            pass

    def with_globals_exported(self) -> tuple[bytes, tuple[str, ...]]:
        """Return the module with its mutable globals exported, and the export names."""
        names = {f"svc-variable-{at}": at for at, each in enumerate(self._global_variables) if each.mutable}
        exports = self.exports | {n.encode(): (GLOBAL, at) for n, at in names.items()}
        changed = {EXPORTS: _encode_exports(exports)}
        return replace_sections(MODULE_HEADER, self._sections, changed), tuple(names)

    def with_state(self, memory: bytes, global_values: tuple[int, ...]) -> bytes:
        """Return the module with an initial memory and mutable globals; its start function becomes empty.

        Raises UnsupportedBinary if that is not a function of this module.
        """
        kind, function = self.exports[START_EXPORT]
        index = function - self._imported
        if kind != FUNCTION or not 0 <= index < len(self._types):
            raise UnsupportedBinary("the start function is not defined in the module")
        values = iter(global_values)
        globals_ = [
            bytes([each.kind, 1, _CONSTANTS[each.kind]]) + sleb(next(values)) + bytes([END])
            if each.mutable
            else each.initial
            for each in self._global_variables
        ]
        pieces = [data_segment(match.start(), match[0]) for match in _NONZERO_RUN.finditer(memory)]
        empty_function = self._imported + len(self._types)
        limits = b"\x00" if self._maximum is None else b"\x01"
        maximum = b"" if self._maximum is None else uleb(self._maximum // PAGE_BYTES)
        code = BinaryReader(dict(self._sections).get(CODE, b"\0"))
        changed = {
            CODE: uleb(code.uleb() + 1) + code.data[code.at :] + _EMPTY_FUNCTION,
            FUNCTIONS: vector([uleb(each) for each in [*self._types, self._types[index]]]),
            MEMORIES: vector([limits + uleb(len(memory) // PAGE_BYTES) + maximum]),
            _GLOBALS: vector(globals_),
            EXPORTS: _encode_exports(self.exports | {START_EXPORT: (FUNCTION, empty_function)}),
            DATA: vector(pieces),
            DATA_COUNT: uleb(len(pieces)),
        }
        return replace_sections(MODULE_HEADER, self._sections, changed)


def _read_globals(reader: BinaryReader) -> Iterator[_GlobalVariable]:
    for _ in range(reader.uleb()):
        begin, kind, mutable = reader.at, reader.byte(), reader.byte() == 1
        if kind not in _CONSTANTS:
            raise UnsupportedBinary("global that is not an integer")
        if reader.byte() != _CONSTANTS[kind]:
            raise UnsupportedBinary("initializer is not a constant")
        while reader.byte() >= 0x80:
            pass
        if reader.byte() != END:
            raise UnsupportedBinary("initializer is more than a constant")
        yield _GlobalVariable(kind, mutable, reader.data[begin : reader.at])


def _encode_exports(exports: Mapping[bytes, tuple[int, int]]) -> bytes:
    return vector([name(text) + bytes([kind]) + uleb(at) for text, (kind, at) in exports.items()])


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
        return self._functions.get(function or "", _unsupported)

    def attach(self, store: Store, memory: Memory) -> None:
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
        instances = Counter(read_outline(component).modules())
        modules = [each for each in instances if component.find(FREEZE_EXPORT, each.start, each.end) >= 0]
        if len(modules) != 1 or instances[modules[0]] != 1:
            return component  # Not exactly one instance of one pre-initializable module.
        (position,) = modules
        module = ModuleBinary(component[position.start : position.end])
        preinitialized = section(CORE_MODULE, module.with_state(*_initialized_state(module)))
        return component[: position.section] + preinitialized + component[position.end :]
    except (UnsupportedBinary, _UnsupportedCall, WasmtimeError, Trap, LookupError, TypeError, ValueError):
        return component


def _initialized_state(module: ModuleBinary) -> tuple[bytes, tuple[int, ...]]:
    """Start an instance; return its memory (whole pages) and its mutable globals.

    Raises `UnsupportedBinary` and `WasmtimeError`.
    """
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
    return bytes(memory.read(store)), values
