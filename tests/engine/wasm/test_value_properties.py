"""Values of the host's own interfaces round-trip through a guest's memory and wasmtime itself.

The guest calls `get` for a tuple and passes its members on to `put` as parameters.
"""

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wasmtime import Engine, wat2wasm
from wasmtime.component import Component, Linker

from engine.wasm.capi.ascii_packing import MAX_PACKED_BYTES
from engine.wasm.capi.host_functions import host_function
from engine.wasm.capi.values import ScratchBuffer, encode_text
from engine.wasm.capi.wasmtime import Invocation, Store, add_function, address
from engine.wasm.compile.compilers import Compiler
from engine.wasm.execution.config import MIB, compile_config
from tests.support.examples import examples, is_fuzzing

MEMORY_LIMIT = 64 * MIB
AREA = 1024


@dataclass(frozen=True)
class Kind:
    """A type of the host's interfaces, its values, and its layout: size, alignment, loads of core values."""

    text: str
    values: st.SearchStrategy[Any]
    size: int
    align: int
    loads: tuple[str, ...]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(str.encode)
KINDS = [
    Kind("u16", st.integers(0, 2**16 - 1), 2, 2, ("i32.load16_u",)),
    Kind("u32", st.integers(0, 2**32 - 1), 4, 4, ("i32.load",)),
    Kind("u64", st.integers(0, 2**64 - 1), 8, 8, ("i64.load",)),
    Kind("string", TEXTS, 8, 4, ("i32.load", "i32.load offset=4")),
]
COUNT, TEXT = KINDS[1], KINDS[3]


def component(kinds: list[Kind], *, optional: bool = False, first: int = 0) -> str:
    """Return the guest, as text. `put` gets the members from `first` on, then those before it.

    `optional`: the tuple is an option, and `none` is called for an empty one.
    """
    at, loads = AREA + (max(kind.align for kind in kinds) if optional else 0), []
    for kind in kinds:
        at = -(-at // kind.align) * kind.align
        loads.append([f"({load} (i32.const {at}))" for load in kind.loads])
        at += kind.size
    passed_loads = [load for member in loads[first:] + loads[:first] for load in member]
    types = [load[1:4] for load in passed_loads]
    whole = f"(tuple {' '.join(kind.text for kind in kinds)})"
    passed = kinds[first:] + kinds[:first]
    parameters = " ".join(f'(param "p{i}" {kind.text})' for i, kind in enumerate(passed))
    put = f"(call $put {' '.join(passed_loads)})"
    if optional:
        put = f"(if (i32.load8_u (i32.const {AREA})) (then {put}) (else (call $none)))"
    return f"""(component
  (import "host" (instance $host
    (export "get" (func (result {f"(option {whole})" if optional else whole})))
    (export "none" (func))
    (export "put" (func {parameters}))))
  (core module $memory
    (memory (export "memory") 4)
    (global $next (mut i32) (i32.const 65536))
    (func (export "realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and
        (i32.sub (i32.add (global.get $next) (local.get $align)) (i32.const 1))
        (i32.sub (i32.const 0) (local.get $align))))
      (global.set $next (i32.add (local.get $at) (local.get $size)))
      (if (i32.gt_u (global.get $next) (i32.mul (memory.size) (i32.const 65536)))
        (then (drop (memory.grow (i32.const 16)))))
      (local.get $at)))
  (core instance $memory (instantiate $memory))
  (alias core export $memory "memory" (core memory $m))
  (alias core export $memory "realloc" (core func $realloc))
  (core func $get (canon lower (func $host "get") (memory $m) (realloc $realloc)))
  (core func $none (canon lower (func $host "none")))
  (core func $put (canon lower (func $host "put") (memory $m)))
  (core module $main
    (import "memory" "memory" (memory 1))
    (import "host" "get" (func $get (param i32)))
    (import "host" "none" (func $none))
    (import "host" "put" (func $put (param {" ".join(types)})))
    (func (export "run") (param i32 i32) (result i32)
      (call $get (i32.const {AREA}))
      {put}
      (i32.const 1)))
  (core instance $main (instantiate $main (with "memory" (instance $memory))
    (with "host" (instance
      (export "get" (func $get)) (export "none" (func $none)) (export "put" (func $put))))))
  (func (export "run") (param "text" string) (result u32)
    (canon lift (core func $main "run") (memory $m) (realloc $realloc))))"""


class Run:
    """The part of a run that callbacks use."""

    failure: BaseException | None = None

    def __init__(self) -> None:
        self.scratch = ScratchBuffer()


@cache
def engine() -> Engine:
    return Engine(compile_config(Compiler.BASELINE))


def through_guest(text: str, values: list[Any], *, packed: bool = False) -> list[Any]:
    """Return each value as passed on by the guest."""
    guest = Component(engine(), wat2wasm(text))
    linker = Linker(engine())
    runs: dict[int, Any] = {}
    taken: list[Any] = []
    waiting = list(values)
    functions = guest.type.imports(engine())["host"].ty.exports(engine())  # type: ignore[union-attr]
    bodies = {
        "get": lambda _run: waiting.pop(0),
        "none": lambda _run: taken.append(None),
        "put": lambda _run, *members: taken.append(members),
    }
    carriers = {"get": "result", "none": "", "put": "arguments"}
    callbacks = {
        name: host_function(runs, functions[name].ty, body, packed=carriers[name] if packed else "")
        for name, body in bodies.items()
    }
    with linker.root() as root, root.add_instance("host") as host:
        for name, callback in callbacks.items():
            add_function(host, name, callback, blocking=False)
    index = guest.get_export_index("run")
    for _ in values:
        store, run = Store(address(engine()), memory_limit=MEMORY_LIMIT, table_limit=1), Run()
        runs[store.context] = run
        try:
            places = address(linker), address(guest), address(index)
            called = Invocation(store.context, *places, lambda run=run: encode_text(run.scratch, b""))
            while not called.poll():
                pass
            failed = called.close()
            if run.failure is not None:
                raise run.failure
            assert failed is None and called.result == 1
        finally:
            del runs[store.context]
            store.close()
    return taken


PROPERTY = settings(
    derandomize=not is_fuzzing(),
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@PROPERTY
@given(data=st.data())
def test_values_of_the_types_of_the_host_round_trip(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=8))
    optional = data.draw(st.booleans())
    members = st.tuples(*(kind.values for kind in kinds))
    values = data.draw(st.lists(st.none() | members if optional else members, min_size=1, max_size=4))
    assert through_guest(component(kinds, optional=optional), values) == values


@PROPERTY
@given(data=st.data())
def test_bytes_of_packed_functions_round_trip(data: st.DataObject) -> None:
    """The guest passes on the text and the number of bytes, behind the other members."""
    numbers = data.draw(st.lists(st.sampled_from(KINDS[:3]), max_size=3))
    content = st.binary(max_size=300) | TEXTS
    values = data.draw(
        st.lists(st.tuples(content, *(kind.values for kind in numbers)), min_size=1, max_size=3)
    )
    text = component([TEXT, COUNT, *numbers], first=2)
    assert through_guest(text, values, packed=True) == [(*rest, first) for first, *rest in values]


@pytest.mark.parametrize("size", [0, 1, 55, 56, 57, 4096, MAX_PACKED_BYTES])
def test_packed_bytes_of_any_size_round_trip(size: int) -> None:
    data = random.Random(size).randbytes(size)
    values = [(data,), (b"x" * size,), (b"\xff" * size,)]
    assert through_guest(component([TEXT, COUNT]), values, packed=True) == values
