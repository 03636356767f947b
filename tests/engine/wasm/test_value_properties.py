"""Values of any WIT type round-trip through a guest's memory and wasmtime itself.

The guest calls `get` for a value of a type and passes it on to `put` unchanged. Extra numbers make the
arguments too wide for parameters, so that both calls pass the value in memory, in the same layout.
"""

import math
import struct
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wasmtime import Engine, wat2wasm
from wasmtime.component import Component, Linker

from engine.wasm.capi.host_functions import host_function
from engine.wasm.capi.values import HandleTable
from engine.wasm.capi.wasmtime import Instance, LinkerInstance, Store, address
from engine.wasm.execution.config import MIB, Compiler, compile_config
from tests.support.examples import examples, is_fuzzing

WIDTH = 17
MEMORY_LIMIT = 64 * MIB
Values = st.SearchStrategy[Any]


@dataclass
class Kind:
    """A WIT type: how component text writes it, and its values. `named` types have to be exported."""

    text: str
    values: Values
    parts: list["Kind"] = field(default_factory=list)
    named: bool = False

    def __repr__(self) -> str:
        return self.text.format(*self.parts)


def single(number: float) -> float:
    packed: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return packed


PLAIN = [
    *(
        Kind(f"{sign}{bits}", st.integers(low, high))
        for bits in (8, 16, 32, 64)
        for sign, low, high in (("u", 0, 2**bits - 1), ("s", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    ),
    Kind("bool", st.booleans()),
    Kind("f32", st.floats(width=32).map(single)),
    Kind("f64", st.floats()),
    Kind("char", st.characters(exclude_categories=["Cs"])),
    Kind("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=60)),
    Kind("(list u8)", st.binary(max_size=300)),
]
NAMES = st.lists(
    st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z][a-z0-9]{0,4}){0,2}", fullmatch=True),
    min_size=1,
    max_size=9,
    unique_by=str.lower,
)


def enum(names: list[str]) -> Kind:
    cases = " ".join(f'"{name}"' for name in names)
    return Kind(f"(enum {cases})", st.sampled_from(names), named=True)


def flags(names: list[str]) -> Kind:
    return Kind(
        f"(flags {' '.join(map(repr, names))})".replace("'", '"'), st.sets(st.sampled_from(names)), named=True
    )


def a_list(item: Kind) -> Kind:
    if item.text == "u8":
        return PLAIN[-1]
    return Kind("(list {})", st.lists(item.values, max_size=5), [item])


def option(item: Kind) -> Kind:
    # An option in an option has two empty values, which Python's None cannot distinguish.
    if item.text == "(option {})":
        return item
    return Kind("(option {})", st.none() | item.values, [item])


def a_tuple(items: list[Kind]) -> Kind:
    return Kind(f"(tuple {'{} ' * len(items)})", st.tuples(*(i.values for i in items)), items)


def record(named: list[tuple[str, Kind]]) -> Kind:
    fields = " ".join(f'(field "{name}" {{}})' for name, _ in named)
    items = [item for _, item in named]
    return Kind(f"(record {fields})", st.tuples(*(i.values for i in items)), items, named=True)


def result(ok: Kind | None, err: Kind | None) -> Kind:
    text = f"(result{' {}' if ok else ''}{' (error {})' if err else ''})"
    sides = [
        st.tuples(st.just(side), item.values if item else st.none())
        for side, item in (("ok", ok), ("err", err))
    ]
    return Kind(text, st.one_of(sides), [item for item in (ok, err) if item])


def variant(cases: list[tuple[str, Kind | None]]) -> Kind:
    text = " ".join(f'(case "{name}"{" {}" if item else ""})' for name, item in cases)
    values = [st.tuples(st.just(name), item.values if item else st.none()) for name, item in cases]
    return Kind(f"(variant {text})", st.one_of(values), [item for _, item in cases if item], named=True)


def named_parts(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    return NAMES.flatmap(
        lambda names: st.lists(items, min_size=len(names), max_size=len(names)).map(
            lambda found: list(zip(names, found, strict=True))
        )
    )


KINDS = st.recursive(
    st.sampled_from(PLAIN) | NAMES.map(enum) | NAMES.map(flags),
    lambda inner: st.one_of(
        inner.map(a_list),
        inner.map(option),
        st.lists(inner, min_size=1, max_size=6).map(a_tuple),
        named_parts(inner).map(record),
        st.tuples(st.none() | inner, st.none() | inner).map(lambda pair: result(*pair)),
        named_parts(st.none() | inner).map(variant),
    ),
    max_leaves=8,
)


def component(kind: Kind) -> str:
    """Return the guest, as text."""
    lines: list[str] = []

    def declare(kind: Kind) -> str:
        """Write a type after its parts; return its name."""
        text = kind.text.format(*[declare(part) for part in kind.parts])
        if not kind.named:
            return text
        number = len(lines)
        lines.append(f'(type $d{number} {text}) (export "t{number}" (type $t{number} (eq $d{number})))')
        return f"$t{number}"

    # Types inside of others have to be declared, too: the text's short forms take care of that.
    wide = f"(tuple {declare(kind)} {'u64 ' * WIDTH})"
    types = "\n".join(lines)
    return f"""(component
  (import "host" (instance $host
    {types}
    (type $wide {wide})
    (export "get" (func (result $wide)))
    (export "put" (func (param "value" $wide)))))
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
  (core func $put (canon lower (func $host "put") (memory $m)))
  (core module $main
    (import "host" "get" (func $get (param i32)))
    (import "host" "put" (func $put (param i32)))
    (func (export "run") (result i32)
      (call $get (i32.const 1024))
      (call $put (i32.const 1024))
      (i32.const 1)))
  (core instance $main (instantiate $main
    (with "host" (instance (export "get" (func $get)) (export "put" (func $put))))))
  (func (export "run") (result u32) (canon lift (core func $main "run"))))"""


class Run(HandleTable):
    """The part of a run that callbacks use."""

    failure: BaseException | None = None


@cache
def engine() -> Engine:
    return Engine(compile_config(Compiler.BASELINE))


def through_guest(text: str, values: list[Any]) -> list[Any]:
    """Return each value as passed on by the guest."""
    guest = Component(engine(), wat2wasm(text))
    linker = Linker(engine())
    runs: dict[int, Any] = {}
    here: list[Any] = []
    numbers = tuple(range(WIDTH))

    def put(_run: Any, value: Any) -> None:
        assert value[1:] == numbers
        here.append(value[0])

    functions = guest.type.imports(engine())["host"].ty.exports(engine())  # type: ignore[union-attr]
    waiting = list(values)
    bodies = {"get": lambda _run: (waiting.pop(0), *numbers), "put": put}
    callbacks = {name: host_function(runs, functions[name].ty, body) for name, body in bodies.items()}
    with linker.root() as root, root.add_instance("host") as host:
        for name, callback in callbacks.items():
            LinkerInstance(host).add_func(name, callback, blocking=False)
    index = guest.get_export_index("run")
    for _ in values:
        store, run = Store(address(engine()), memory_limit=MEMORY_LIMIT), Run()
        run.context = store.context
        runs[store.context] = run
        try:
            instance = Instance(store.context)
            result = instance.instantiate(address(linker), address(guest))
            while not result.poll():
                pass
            assert result.close() is None
            called = instance.call(address(index), b"", returns_u32=True)
            while not called.poll():
                pass
            failed = called.close()
            if run.failure is not None:
                raise run.failure
            assert failed is None and called.result_u32 == 1
        finally:
            del runs[store.context]
            store.close()
    return here


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; every NaN equals every other."""
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and type(one) is type(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


@settings(
    derandomize=not is_fuzzing(),
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_values_of_any_type_round_trip(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    values = data.draw(st.lists(kind.values, min_size=1, max_size=4))
    result = through_guest(component(kind), values)
    assert len(result) == len(values)
    assert all(map(same, values, result)), (values, result)
