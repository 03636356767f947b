"""Random calls of the WASI library, and random texts of the host: no address reaches beyond its memory.

A walk is a sequence of calls on one instance, with handles, addresses and lengths that may be wrong. Each
ends in a result, in a trap that names a rule, or in a trap of the module that reaches the guest's memory. A
trap of the library itself is a failure. `SVC_FUZZ_CASES` is the number of calls.
"""

import os
import random
import struct
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import Trap, TrapCode

from engine.wasm.weave.builder import DIRECT_INTERFACES
from tests.conformance.canonical import flat, load
from tests.conformance.wit import (
    Borrow,
    Function,
    List,
    Option,
    Prim,
    Resource,
    Result,
    Tuple,
    Type,
    Variant,
    functions,
    resolve,
)
from tests.engine.wasm.build_library import STACK_BYTES
from tests.engine.wasm.library_instance import (
    ARGUMENTS,
    HEAP,
    RESULT,
    Exited,
    Host,
    LibraryInstance,
    Trapped,
    head,
    plain,
)
from tests.support.examples import examples

STEPS = 100
WALKS = int(os.environ.get("SVC_FUZZ_CASES", 0)) // STEPS or examples(40)
FUNCTIONS = [
    f for f in {f.key: f for f in functions().values()}.values() if f.interface not in DIRECT_INTERFACES
]
EXITS = "wasi:cli/exit"
TEXTS = [
    b"",
    b"a",
    b"x-name",
    b"Content-Length",
    b"12",
    b"host",
    b"text/plain; charset=utf-8",
    b" \t blanks \t",
    b"caf\xc3\xa9",
    b"\xff\xfe\x00",
    b"/path?query",
    b"example.com:80",
    b"[::1]:443",
    b"*",
    b"v" * 300,
    bytes(range(256)),
    b"long" * 1100,
    b"x" * 65_000,
    b"y" * 70_000,
]
WORDS = [0, 1, 2, 8, 4096, 65_535, 65_536, 1 << 20, 1 << 31, (1 << 32) - 1, (1 << 32) - 16]
ERRORS = [b"", b"DNS-error", b"internal-error\0why", b"HTTP-response-body-size\x007", b"unheard-of"]
RESPONSES = [b"", b"-connection-refused", b"+200\0", b"+404\0x\x001\0y\0caf\xc3\xa9\0"]
DROPPED = ["pollable", "error", "fields", "input-stream", "output-stream", "request-options", "network"]
"""Resources without children, which most drops are for."""
SOURCES = {
    "fields": "fields.constructor",
    "outgoing-response": "outgoing-response.constructor",
    "outgoing-request": "outgoing-request.constructor",
    "incoming-body": "incoming-request.consume",
    "input-stream": "incoming-body.stream",
    "outgoing-body": "outgoing-response.body",
    "output-stream": "outgoing-body.write",
    "future-incoming-response": "outgoing-handler/handle",
    "incoming-response": "future-incoming-response.get",
    "future-trailers": "incoming-body.finish",
    "request-options": "request-options.constructor",
    "network": "instance-network",
}
"""A function that returns a handle, by the type of the handle."""
FIRST = [
    *SOURCES.values(),
    "outgoing-request.body",
    "response-outparam.set",
    "subscribe-instant",
    "get-stdout",
]
PERMITTED = ("output-stream.write", "output-stream.write-zeroes")
CHECK_WRITE = "wasi:io/streams#[method]output-stream.check-write"
LIMITS = "it holds more than"
MALFORMED = "the host returned a malformed text"


def needed(function: Function) -> list[str]:
    """Return the names of the resources without which a function cannot be called."""
    kinds = [resolve(kind) for _, kind in function.parameters]
    borrowed = [resolve(kind.resource) if isinstance(kind, Borrow) else kind for kind in kinds]
    return [kind.name for kind in borrowed if isinstance(kind, Resource)]


class RandomHost(Host):
    """Answers at random; while `malformed`, also with texts of another form than agreed."""

    def __init__(self, chance: random.Random, *, malformed: bool = False) -> None:
        super().__init__()
        self.chance = chance
        self.malformed = malformed

    def answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.calls.clear()
        if name in ("trap", "exit", "now", "begin"):
            return self._spoiled(super().answer(name, arguments))
        chance = self.chance
        if name == "send":
            self.clock += chance.randrange(1000)
            room = chance.choice([0, 1, 5000, 262_144])
            return room | (chance.random() < 0.02) << 19 | self.clock << 20
        if name == "read":
            size = chance.choice([0, 1, 60, 5000, 65_536])
            data = (
                chance.randbytes(min(size, arguments[1]))
                if chance.random() < 0.5
                else b"t" * min(size, arguments[1])
            )
            text, count = _packed(data)
            if self.malformed and chance.random() < 0.3:
                count += chance.choice([-1, 1, 56, 1 << 31])
            return text, count & 0xFFFFFFFF, chance.choice([0, 0, 1, 2])
        if name in ("ready", "wait"):
            clock, answers = super().answer(name, arguments)
            marks = bytes(
                chance.choice(b"0111x") if name == "wait" else chance.choice(b"01x") for _ in answers
            )
            return clock, self._spoiled(marks)
        known = {"fetch": [b"", b"", *ERRORS], "response": RESPONSES, "error": ERRORS}
        return self._spoiled(chance.choice(known[name])) if name in known else b""

    def _spoiled(self, answer: Any) -> Any:
        chance = self.chance
        if not self.malformed or not isinstance(answer, bytes) or chance.random() < 0.3:
            return answer
        changed = bytearray(answer or b"0")
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        texts = [
            answer[: chance.randrange(len(answer) + 1)],
            answer + chance.choice([b"0", b"\0", b"\xc3\xa9" * 100, b"1" * 90_000]),
            chance.randbytes(chance.randrange(300)),
            bytes(changed),
        ]
        return chance.choice(texts).decode(errors="replace").encode()


def _packed(data: bytes) -> tuple[bytes, int]:
    """Return bytes as the host returns them, and their number."""
    if data.isascii():
        return data, len(data)
    text = bytearray()
    for at in range(0, len(data), 56):
        part = data[at : at + 56].ljust(56, b"\0")
        high = [sum((part[j + 8 * i] >> 7) << i for i in range(7)) for j in range(8)]
        text += bytes(byte & 0x7F for byte in part) + bytes(high)
    return bytes(text), len(data)


class Walk:
    """Random calls on one instance."""

    def __init__(self, seed: int, *, malformed: bool = False) -> None:
        self.chance = random.Random(seed)
        self.host = RandomHost(self.chance, malformed=malformed)
        self.library = LibraryInstance(self.host)
        self.handles: dict[str, list[int]] = defaultdict(list)
        self.place = ARGUMENTS
        self.called: set[str] = set()

    def run(self) -> None:
        """Make all calls, or until one traps."""
        try:
            self.library.run(head(body=True) if not self.host.malformed else self.host.answer("begin", ()))
            self.handles |= {"incoming-request": [1], "response-outparam": [2]}
            for name in self.chance.sample(FIRST, self.chance.randrange(len(FIRST))):
                self.prepare(name)
            for _ in range(STEPS):
                self.step()
        except (Trapped, Exited):
            pass
        except Trap as trap:
            assert trap.trap_code == TrapCode.MEMORY_OUT_OF_BOUNDS, trap
            assert trap.frames[0].module_name in ("access", "guest"), trap
        else:
            self.check_sound()
        stack = self.library.stack_used
        assert stack < STACK_BYTES, "the library has used all of its stack"
        self.library.store.close()  # It reserves 8 GiB of addresses, and is part of cycles.

    def prepare(self, name: str) -> None:
        """Call a function that returns a handle, and before it those that return what it needs."""
        function = functions()[name]
        for resource in needed(function):
            if not self.handles[resource] and resource in SOURCES:
                self.prepare(SOURCES[resource])
        if all(self.handles[resource] for resource in needed(function)):
            self.call(function)

    def step(self) -> None:
        """Call a random function."""
        chance, library = self.chance, self.library
        library.reset_heap()
        self.place = ARGUMENTS
        if chance.random() < 0.1:
            name = chance.choice(DROPPED if chance.random() < 0.9 else [*self.handles])
            if self.handles[name] or chance.random() < 0.01:
                library.core(f"drop#{name}", self.handle(name, own=True))
            return
        function = chance.choice(FUNCTIONS)
        if function.interface == EXITS and chance.random() < 0.99:
            return
        if not all(self.handles[name] for name in needed(function)) and chance.random() < 0.995:
            return
        if function.short in PERMITTED and self.handles["output-stream"] and chance.random() < 0.99:
            library.core(CHECK_WRITE, self.handles["output-stream"][-1], RESULT)
        self.call(function)

    def call(self, function: Function) -> None:
        """Call a function with random arguments."""
        chance, library = self.chance, self.library
        cores = [core for _, kind in function.parameters for core in self.flat(kind)]
        types = [core for _, kind in function.parameters for core in flat(kind)]
        results = flat(function.result) if function.result else []
        result = RESULT
        if len(results) > 1:
            result = chance.choice(WORDS) if chance.random() < 0.002 else RESULT
            cores, types = [*cores, result], [*types, "i32"]
        value = library.core(function.key, *map(_core, cores, types))
        self.called.add(function.key)
        kind = resolve(function.result) if function.result is not None else None
        if isinstance(kind, Resource):
            self.handles[kind.name].append(value)
        elif kind is not None and len(results) > 1 and result == RESULT:
            self.collect(kind, load(plain(kind), RESULT, library.read))

    def collect(self, kind: Type, value: Any) -> None:
        """Remember the handles of a result."""
        kind = resolve(kind)
        if isinstance(kind, Resource):
            self.handles[kind.name].append(value)
        elif isinstance(kind, Option) and value is not None:
            self.collect(kind.payload, value)
        elif isinstance(kind, Result):
            side, payload = value
            inner = kind.ok if side == "ok" else kind.err
            if inner is not None:
                self.collect(inner, payload)
        elif isinstance(kind, Variant) and isinstance(value, tuple):
            inner = dict(kind.cases)[value[0]]
            if inner is not None:
                self.collect(inner, value[1])

    # -- arguments ---------------------------------------------------------------------------------------

    def number(self) -> int:
        """Return a number, usually a small one."""
        chance = self.chance
        if chance.random() < 0.9:
            return chance.choice([0, 1, 200, chance.randrange(4000)])
        return chance.choice([*WORDS, chance.getrandbits(64)])

    def handle(self, name: str, *, own: bool) -> int:
        """Return a handle, usually of the type; it is not held any more if the callee owns it."""
        held = self.handles[name]
        if held and self.chance.random() < 0.995:
            position = -1 - self.chance.randrange(min(len(held), 3)) * (self.chance.random() < 0.3)
            return held.pop(position) if own else held[position]
        return self.chance.choice([self.chance.randrange(40), self.chance.getrandbits(32)])

    def flat(self, kind: Type) -> list[int]:
        """Return the core values of an argument."""
        kind = resolve(kind)
        chance = self.chance
        if isinstance(kind, Resource | Borrow):
            own = isinstance(kind, Resource)
            resource = kind if isinstance(kind, Resource) else resolve(kind.resource)
            assert isinstance(resource, Resource)
            return [self.handle(resource.name, own=own)]
        if isinstance(kind, List) or kind == Prim("string"):
            return list(self.sequence(kind))
        if isinstance(kind, Prim):
            return [self.number()]
        if isinstance(kind, Option):
            cases: list[Type | None] = [None, kind.payload]
        elif isinstance(kind, Result):
            cases = [kind.ok, kind.err]
        elif isinstance(kind, Variant):
            cases = [payload for _, payload in kind.cases]
        else:
            return [self.number() for _ in flat(kind)]
        case = chance.randrange(len(cases))
        payload = cases[case]
        cores = [case if chance.random() < 0.998 else self.number(), *(self.flat(payload) if payload else ())]
        return cores + [self.number() for _ in flat(kind)[len(cores) :]]

    def sequence(self, kind: Type) -> tuple[int, int]:
        """Return address and length of a string or list, which is usually in the guest's memory."""
        chance = self.chance
        if chance.random() < 0.003:
            return chance.choice([*WORDS, self.place]), chance.choice(WORDS)
        if not isinstance(kind, List) or resolve(kind.element) == Prim("u8"):
            data = chance.choice(TEXTS[:-3] if chance.random() < 0.99 else TEXTS)
            if kind == Prim("string") and chance.random() < 0.99:
                data = data.decode(errors="ignore").encode()
            return self.put(data), len(data)
        element = resolve(kind.element)
        count = chance.randrange(1, 5) if chance.random() < 0.99 else 0
        words: list[int] = []
        for _ in range(count):
            members = element.members if isinstance(element, Tuple) else (element,)
            for member in members:
                words += self.flat(member)
        return self.put(struct.pack(f"<{len(words)}I", *(word & 0xFFFFFFFF for word in words))), count

    def put(self, data: bytes) -> int:
        """Write to the guest's memory and return the address."""
        at = self.place
        if at + len(data) > HEAP:
            return at
        self.library.guest.write(self.library.store, data, at)
        self.place = at + (len(data) + 7) // 8 * 8
        return at

    # -- afterwards --------------------------------------------------------------------------------------

    def check_sound(self) -> None:
        """Check that the library still works, after calls that were wrong."""
        library, fields = self.library, [("x", b"1"), ("y", bytes(range(128, 256)) * 20), ("x", b"")]
        reasons = (LIMITS, MALFORMED) if self.host.malformed else (LIMITS,)
        self.host.malformed = False
        try:
            handle = library.ok("fields.from-list", fields)
            copy = library.call("fields.clone", handle)
            library.ok("fields.append", copy, "z", b"3")
            library.ok("fields.set", handle, "x", [b"2"])
            assert library.call("fields.entries", copy) == [*fields, ("z", b"3")]
            assert library.call("fields.entries", handle) == [fields[1], ("x", b"2")]
            assert len(library.call("get-random-bytes", 1000)) == 1000
            stdout = library.call("get-stdout")
            assert library.ok("output-stream.check-write", stdout) == 65_536
            library.ok("output-stream.write", stdout, bytes(range(256)) * 200)
            for owned, name in ((handle, "fields"), (copy, "fields"), (stdout, "output-stream")):
                library.drop(name, owned)
        except Trapped as trapped:
            assert str(trapped).startswith(reasons)


def _core(number: int, kind: str) -> int:
    """Return a number as wasmtime takes it."""
    bits = 64 if kind == "i64" else 32
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> bits - 1 else number


@pytest.mark.fuzz
@settings(max_examples=WALKS)
@given(st.integers(0, (1 << 64) - 1))
def test_wrong_handles_and_addresses_reach_nothing_else(seed: int) -> None:
    Walk(seed).run()


@pytest.mark.fuzz
@settings(max_examples=WALKS)
@given(st.integers(0, (1 << 64) - 1))
def test_malformed_texts_of_the_host_reach_nothing_else(seed: int) -> None:
    Walk(seed, malformed=True).run()


def test_walks_reach_every_function() -> None:
    """Only errors of streams are too rare for a short run."""
    called: set[str] = set()
    for seed in range(150):
        walk = Walk(seed)
        walk.run()
        called |= walk.called
    common = {f.key for f in FUNCTIONS if f.interface != EXITS and needed(f) != ["error"]}
    assert called >= common
