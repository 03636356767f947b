"""Components made to harm the host: each is rejected, at once, or runs with the host unharmed."""

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import Engine, WasmtimeError, wat2wasm
from wasmtime.component import Component

from engine.wasm.binary.fast_streams import add_fast_streams
from engine.wasm.binary.memory_image import split_memory
from engine.wasm.binary.memory_limits import declared_limits
from engine.wasm.binary.memory_probe import add_probe
from engine.wasm.binary.reader import MAX_OUTLINE_BYTES, read_outline
from engine.wasm.capi.linker import MAX_INTERFACES, LinkedComponent
from engine.wasm.compile.component_file import ComponentRejected
from engine.wasm.execution.config import Compiler, compile_config
from engine.wasm_binary import COMPONENT_HEADER, MAX_SECTIONS, UnsupportedBinary, read_sections, section, uleb
from tests.engine.wasm import text_guest
from tests.lanes.components import HANDLER
from tests.support.examples import examples

ENGINE = Engine(compile_config(Compiler.BASELINE))


def component(imports: str) -> bytes:
    return bytes(
        wat2wasm(
            f"""(component {imports}
            (core module $module (func (export "f")))
            (core instance $core (instantiate $module))
            (func $f (canon lift (core func $core "f")))
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
            "".join(f'(import "wasi:io/error@0.2.{i}" (instance))' for i in range(MAX_INTERFACES + 1)),
            id="interfaces of many versions",
        ),
        pytest.param('(import "wasi:io/error@0.2.3" (func))', id="function as interface"),
        pytest.param(
            '(import "wasi:io/error@0.2.3" (instance (export "strange" (type (sub resource)))))',
            id="unknown resource",
        ),
        pytest.param(
            '(import "svc:bytes/streams@0.1.0" (instance (export "write" '
            '(func (param "a" u32) (param "b" string) (param "c" u32) (param "d" u32)))))',
            id="packed function of another type",
        ),
    ],
)
def test_hostile_imports_are_rejected_at_once(imports: str) -> None:
    compiled = Component(ENGINE, component(imports))
    began = time.thread_time()
    with pytest.raises(ComponentRejected):
        LinkedComponent(compiled, ENGINE, {})
    assert time.thread_time() - began < 2


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
    for candidate in (add_fast_streams(add_probe(binary)), binary):
        with suppress(WasmtimeError, ComponentRejected):
            LinkedComponent(Component(ENGINE, candidate), ENGINE, {})
