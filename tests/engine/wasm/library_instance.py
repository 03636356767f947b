"""The WASI library in an instance of its own, with a guest and a host in Python.

The memory module and the access module are those of the weaver. The guest is a memory with an allocator; its
calls are made from Python. The host records its calls and answers from `replies`.
"""

import ctypes
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from wasmtime import Engine, Func, FuncType, Instance, Module, Store, ValType, wat2wasm

from engine.wasm.capi.ascii_packing import unpack
from engine.wasm.weave.modules import access_module, memory_module
from engine.wasm.weave.weaver import library
from tests.conformance.canonical import Static, flat, flatten, load
from tests.conformance.wit import (
    Borrow,
    List,
    Option,
    Prim,
    Record,
    Resource,
    Result,
    Tuple,
    Type,
    Variant,
    functions,
    resolve,
)
from tests.engine.wasm.build_library import STACK_BYTES

RESULT, ARGUMENTS, HEAP = 8, 0x1000, 0x80000
"""Addresses of the guest: results, arguments, and the begin of the allocator's memory."""
FOREVER = (1 << 64) - 1
_UNTOUCHED = b"\xa5" * STACK_BYTES
_NUMBER = re.compile(r"-?[0-9]+(?=\))")
_GUEST_PAGES = 16
_GUEST = f"""(module
  (memory (export "memory") {_GUEST_PAGES})
  (global $heap (export "heap") (mut i32) (i32.const {HEAP}))
  (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.sub (local.get 2) (i32.const 1)))
      (i32.sub (i32.const 0) (local.get 2))))
    (global.set $heap (i32.add (local.get $at) (local.get 3)))
    (local.get $at)))"""
_STRINGS = {
    "send": ((2, 3), (4, 5)),
    "abort": ((1, 2),),
    "refuse": ((0, 1),),
    "ready": ((0, 1),),
    "wait": ((0, 1),),
    "fetch": ((0, 1),),
    "print": ((1, 2),),
    "trap": ((0, 1),),
    "warn": ((0, 1),),
}
"""Positions of address and length of the strings among the arguments of a host function."""
_TEXT_RESULTS = ("begin", "error", "fetch", "response")


class Trapped(Exception):
    """The library called `trap`, with this text."""


class Exited(Exception):
    """The library called `exit`, with this status."""


def head(
    *, body: bool = False, method: str = "GET", fields: bytes = b"", environment: bytes = b"", wall: int = 0
) -> bytes:
    """Return the text that a run starts with."""
    seed = bytes(range(32)).hex()
    parts = [str(wall), seed, str(int(not body)), method, "http", "localhost", "/", str(len(fields))]
    return "".join(f"{part}\0" for part in parts).encode() + fields + environment


@dataclass
class Host:
    """`calls` are the calls so far: name and arguments, strings as bytes. `replies` answer by name."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    replies: dict[str, Callable[..., Any]] = field(default_factory=dict)
    clock: int = 1000

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of the calls of a function."""
        return [call[1:] for call in self.calls if call[0] == name]

    def answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Record a call and return the answer."""
        self.calls.append((name, *arguments))
        if name in self.replies:
            return self.replies[name](*arguments)
        match name:
            case "begin":
                return head()
            case "send":
                return 262_144 | self.clock << 20
            case "now":
                self.clock += 1
                return self.clock
            case "read":
                return b"", 0, 1
            case "ready" | "wait":
                if name == "wait" and arguments[1] < FOREVER:
                    self.clock = max(self.clock, arguments[1])
                return self.clock, b"1" * len(arguments[0].replace(b"|", b"").split())
            case "trap":
                raise Trapped(arguments[0].decode(errors="replace"))
            case "exit":
                raise Exited(arguments[0])
        return b""


@cache
def _compiled() -> tuple[Engine, dict[str, Module]]:
    engine = Engine()
    texts = {
        "memory": memory_module(library().pages),
        "guest": _GUEST,
        "access": access_module(1, ["i32"], addressed=True),
    }
    # Frames of traps have the modules' names.
    named = {name: text.replace("(module", f"(module ${name}", 1) for name, text in texts.items()}
    modules = {name: Module(engine, bytes(wat2wasm(text))) for name, text in named.items()}
    return engine, modules | {"library": Module(engine, library().binary)}


class LibraryInstance:
    """An instance of the library. `handle` is called for the guest's handler."""

    def __init__(
        self,
        host: Host | None = None,
        handle: Callable[["LibraryInstance", int, int], None] | None = None,
        *,
        allocate: Callable[["LibraryInstance"], int] | None = None,
    ) -> None:
        """`allocate` replaces the guest's allocator."""
        engine, modules = _compiled()
        self.host = host or Host()
        self.store = store = Store(engine)
        self._own: Any = Instance(store, modules["memory"], []).exports(store)
        self.memory: Any = self._own["memory"]
        imports = [
            self._own[name] if module == "m" else self._host_function(name, kind)
            for module, name, kind in _imports(modules["library"])
        ]
        self._write(0, _UNTOUCHED)
        self.exports = Instance(store, modules["library"], imports).exports(store)
        guest: Any = Instance(store, modules["guest"], []).exports(store)
        self.guest: Any = guest["memory"]
        self._heap = guest["heap"]
        number = ValType.i32()

        def handler(request: int, outparam: int) -> None:
            if handle is not None:
                handle(self, request, outparam)

        def realloc(*_: int) -> int:
            assert allocate is not None
            return allocate(self)

        own = Func(store, FuncType([number] * 4, [number]), realloc)
        access = {
            ("guest", "realloc-0"): guest["realloc"] if allocate is None else own,
            ("guest", "memory-0"): self.guest,
            ("guest", "memory"): self.guest,
            ("guest", "handle"): Func(store, FuncType([number] * 2, []), handler),
            ("memory", "memory"): self.memory,
            ("memory", "realloc-index"): self._own["realloc-index"],
            ("library", "__indirect_function_table"): self.exports["__indirect_function_table"],
        }
        items = [access[module, name] for module, name, _ in _imports(modules["access"])]
        Instance(store, modules["access"], items)
        self._functions: dict[str, Any] = {}

    # -- the host ----------------------------------------------------------------------------------------

    def _host_function(self, name: str, kind: FuncType) -> Func:
        def call(*arguments: int) -> Any:
            return self._host_call(name, arguments)

        return Func(self.store, kind, call)

    def _host_call(self, name: str, arguments: tuple[int, ...]) -> Any:
        values: list[Any] = [each & 0xFFFFFFFF for each in arguments]
        strings = _STRINGS.get(name, ())
        for at, size in strings:
            values[at] = bytes(self.memory.read(self.store, values[at], values[at] + values[size]))
        given = [value for i, value in enumerate(values) if i not in {size for _, size in strings}]
        if name == "send":
            channel, flags, text, body, count = given
            given = [channel, flags, text, _bytes(body, count)]
        elif name == "print":
            given = [given[0], _bytes(given[1], given[2])]
        result = given.pop() if name in (*_TEXT_RESULTS, "read", "ready", "wait") else 0
        if name == "wait":
            given[1] = arguments[2] & (1 << 64) - 1
        answer = self.host.answer(name, tuple(given))
        if name in _TEXT_RESULTS:
            self._write(result, struct.pack("<II", *self._place(answer)))
        elif name == "read":
            text, count, state = answer
            self._write(result, struct.pack("<IIII", *self._place(text), count, state))
        elif name in ("ready", "wait"):
            clock, text = answer
            self._write(result, struct.pack("<QII", clock, *self._place(text)))
        return _signed(answer) if name in ("send", "now") else None

    def _place(self, text: bytes) -> tuple[int, int]:
        """Write a result to the buffer, or to pages of its own."""
        at = self._own["realloc"](self.store, 0, 0, 1, len(text))
        self._write(at, text)
        return at, len(text)

    def _write(self, at: int, data: bytes) -> None:
        self.memory.write(self.store, data, at)

    # -- the guest ---------------------------------------------------------------------------------------

    def core(self, name: str, *arguments: int) -> Any:
        """Call a core function."""
        function = self._functions.get(name) or self._functions.setdefault(name, self.exports[name])
        return function(self.store, *arguments)

    def reset_heap(self) -> None:
        """Free what the guest's allocator has given out."""
        self._heap.set_value(self.store, HEAP)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function by its short name; return its value. Handles are numbers."""
        function = functions()[name]
        self.reset_heap()
        static = Static(ARGUMENTS)
        pairs = zip(function.parameters, arguments, strict=True)
        cores = [core for (_, kind), value in pairs for core in flatten(plain(kind), value, static)]
        for at, content in static.data:
            self.guest.write(self.store, content, at)
        numbers = [int(_NUMBER.findall(core)[0]) for core in cores]
        if function.result is None or len(flat(function.result)) == 1:
            return self.core(function.key, *map(_signed, numbers))
        self.core(function.key, *map(_signed, numbers), RESULT)
        return load(plain(function.result), RESULT, self.read)

    def ok(self, name: str, *arguments: Any) -> Any:
        """Call a function whose result is ok; return the value."""
        side, value = self.call(name, *arguments)
        assert side == "ok", value
        return value

    def read(self, at: int, size: int) -> bytes:
        """Return bytes of the guest's memory."""
        return bytes(self.guest.read(self.store, at, at + size))

    def drop(self, resource: str, handle: int) -> None:
        """Drop a handle."""
        self.core(f"drop#{resource}", handle)

    def run(self, text: bytes) -> int:
        """Answer the request with this head; return the size of all memories in pages."""
        at = self.core("realloc", 0, 0, 1, len(text))
        self._write(at, text)
        pages: int = self.core("svc-run", at, len(text))
        return pages

    @property
    def stack_used(self) -> int:
        """The greatest number of bytes of the library's stack that were in use."""
        stack = bytes(self.memory.read(self.store, 0, STACK_BYTES))
        return len(stack.lstrip(_UNTOUCHED[:1]))

    @property
    def pages(self) -> int:
        """The size of the library's memory."""
        return self.memory.size(self.store)


def _imports(module: Module) -> list[tuple[str, str, Any]]:
    return [(each.module, each.name or "", each.type) for each in module.imports]


def plain(kind: Type) -> Type:
    """Return a type with numbers instead of handles."""
    kind = resolve(kind)
    match kind:
        case Resource() | Borrow():
            return Prim("u32")
        case List(element):
            return List(plain(element))
        case Option(payload):
            return Option(plain(payload))
        case Tuple(members):
            return Tuple(tuple(map(plain, members)))
        case Record(fields):
            return Record(tuple((name, plain(member)) for name, member in fields))
        case Result(ok, err):
            return Result(ok and plain(ok), err and plain(err))
        case Variant(cases, enum):
            return Variant(tuple((name, payload and plain(payload)) for name, payload in cases), enum)
    return kind


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _bytes(text: bytes, count: int) -> bytes:
    if len(text) == count:
        assert text.isascii()
        return text
    raw = ctypes.create_string_buffer(text, len(text))
    return unpack(ctypes.addressof(raw), len(text), count)
