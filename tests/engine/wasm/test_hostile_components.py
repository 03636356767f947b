"""Components made to harm the host: each is rejected, at once, or runs with the host unharmed."""

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import Engine, WasmtimeError, wat2wasm
from wasmtime.component import Component

from engine.wasm.binary.memory_image import split_memory
from engine.wasm.binary.reader import MAX_OUTLINE_BYTES, declared_limits, read_outline
from engine.wasm.capi.linker import LinkedComponent
from engine.wasm.compile.compilers import Compiler
from engine.wasm.execution.config import compile_config
from engine.wasm.weave.builder import HOST_INTERFACE
from engine.wasm.weave.weaver import weave
from engine.wasm_binary import COMPONENT_HEADER, MAX_SECTIONS, UnsupportedBinary, read_sections, section, uleb
from tests.engine.wasm import text_guest
from tests.lanes.components import HANDLER
from tests.support.examples import examples

ENGINE = Engine(compile_config(Compiler.BASELINE))


def component(imports: str) -> bytes:
    return bytes(
        wat2wasm(
            f"""(component {imports}
            (core module $module (func (export "f") (param i32 i32)))
            (core instance $core (instantiate $module))
            (func $f (param "request" u32) (param "out" u32) (canon lift (core func $core "f")))
            (instance $instance (export "handle" (func $f)))
            (export "{HANDLER}" (instance $instance)))"""
        )
    )


def nested_types(depth: int) -> str:
    doubled = "".join(f"(type $t{i + 1} (tuple $t{i} $t{i}))" for i in range(depth))
    return f"(type $t0 (tuple u8 u8)) {doubled}"


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param(
            f'(import "wasi:io/error@0.2.3" (instance {nested_types(16)} '
            '(export "f" (func (param "x" $t16)))))',
            id="type with 2^16 parts",
        ),
        pytest.param(
            f'(import "wasi:io/error@0.2.3" (instance {nested_types(16)} (export "f" (func (result $t16)))))',
            id="result with 2^16 parts",
        ),
        pytest.param(
            '(import "wasi:io/error@0.2.3" (instance'
            + "".join(f'(export "f{i}" (func))' for i in range(10_001))
            + "))",
            id="10,001 functions",
        ),
        pytest.param(
            "".join(f'(import "wasi:io/error@0.2.{i}" (instance))' for i in range(1000)),
            id="interfaces of many versions",
        ),
        pytest.param('(import "wasi:io/error@0.2.3" (func))', id="function as interface"),
        pytest.param(
            '(import "wasi:io/error@0.2.3" (instance (export "strange" (type (sub resource)))))',
            id="unknown resource",
        ),
        pytest.param(
            '(import "svc:doors/call@0.1.0" (instance (export "ask" (func (param "a" u32)))))',
            id="function of another type",
        ),
    ],
)
def test_hostile_import_types_do_not_reach_the_linker(imports: str) -> None:
    began = time.thread_time()
    woven = weave(component(imports))
    assert read_outline(woven).imports == [HOST_INTERFACE]
    LinkedComponent(Component(ENGINE, woven), ENGINE, {})
    assert time.thread_time() - began < 2


@pytest.mark.parametrize(
    ("interface", "function", "kind", "signature"),
    [
        ("svc:doors/call@0.1.0", "ask", '(param "a" u32)', "(param i32)"),
        ("svc:doors/call@0.1.0", "other", '(param "a" u32)', "(param i32)"),
        ("svc:dev/script@0.1.0", "source", '(param "a" string)', "(param i32 i32)"),
    ],
)
def test_function_of_the_host_with_another_type_is_rejected(
    interface: str, function: str, kind: str, signature: str
) -> None:
    imports = f"""(import "{interface}" (instance $host (export "{function}" (func {kind}))))
      (core module $storage (memory (export "memory") 1)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 0))
      (core instance $storage (instantiate $storage))
      (core func $called (canon lower (func $host "{function}")
        (memory (core memory $storage "memory")) (realloc (core func $storage "realloc"))))
      (core module $caller (import "host" "f" (func {signature})))
      (core instance (instantiate $caller (with "host" (instance (export "f" (func $called))))))"""
    with pytest.raises((WasmtimeError, UnsupportedBinary)):
        Component(ENGINE, weave(component(imports)))


def many(count: int, realloc: str) -> bytes:
    """Return a component that calls `count` functions of Doors, which are unknown to the host."""
    indices = range(count)
    functions = "".join(f'(export "f{i}" (func (param "a" string) (result string)))' for i in indices)
    imports = f"""(import "wasi:io/error@0.2.3" (instance $host {functions}))
      (core module $storage (memory (export "memory") 1)
        {
        "".join(f'(func (export "r{i}") (param i32 i32 i32 i32) (result i32) i32.const 0)' for i in indices)
    })
      (core instance $storage (instantiate $storage))
      {"".join(f'(alias core export $storage "r{i}" (core func $r{i}))' for i in indices)}
      {
        "".join(
            f'''(core func $f{i} (canon lower (func $host "f{i}")
        (memory (core memory $storage "memory")) (realloc {realloc.format(i)})))'''
            for i in indices
        )
    }
      (core module $caller
        {"".join(f'(import "host" "f{i}" (func (param i32 i32 i32)))' for i in indices)})
      (core instance (instantiate $caller (with "host" (instance
        {"".join(f'(export "f{i}" (func $f{i}))' for i in indices)}))))"""
    return component(imports)


@pytest.mark.parametrize("realloc", ["(core func $r0)", "(core func $r{})"], ids=["one", "many"])
def test_many_functions_are_woven_or_refused_in_bounded_time(realloc: str) -> None:
    binary = many(4000, realloc)
    began = time.thread_time()
    with suppress(UnsupportedBinary, WasmtimeError):
        weave(binary)
    assert time.thread_time() - began < 4


def test_outline_and_sections_are_read_in_bounded_time() -> None:
    endless_types = section(7, uleb(MAX_OUTLINE_BYTES) + bytes(MAX_OUTLINE_BYTES))
    many = section(0, b"\x00") * (MAX_SECTIONS + 1)
    with pytest.raises(UnsupportedBinary, match="outline of more than 1 MiB"):
        read_outline(COMPONENT_HEADER + endless_types)
    with pytest.raises(UnsupportedBinary, match="outline of more than 1 MiB"):
        read_outline(COMPONENT_HEADER + section(0, b"\x00") * (MAX_OUTLINE_BYTES // 16 + 1))
    with pytest.raises(UnsupportedBinary, match="sections"):
        list(read_sections(COMPONENT_HEADER + many, COMPONENT_HEADER))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """The text guest with some bytes replaced, removed or repeated."""
    data = bytearray(text_guest.component())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(len(COMPONENT_HEADER), len(data)))
        until = min(len(data), at + draw(st.integers(0, 8)))
        data[at:until] = draw(st.one_of(st.binary(max_size=8), st.just(bytes(data[at:until]) * 2)))
    return bytes(data)


@settings(max_examples=examples(30), deadline=None)
@given(mutated())
def test_mutated_component_is_rejected_or_linked(binary: bytes) -> None:
    for analyze in (read_outline, declared_limits, split_memory):
        with suppress(UnsupportedBinary):
            analyze(binary)
    with suppress(WasmtimeError, UnsupportedBinary):
        LinkedComponent(Component(ENGINE, weave(binary)), ENGINE, {})
