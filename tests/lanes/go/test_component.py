"""Components from arbitrary core modules, without a toolchain."""

from contextlib import suppress

import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st

from engine.wasm_binary import MODULE_HEADER, UnsupportedBinary, read_sections, section, uleb
from lanes.go.component import HANDLE, NoHandler, NotHosted, UnboundModule, component, read
from lanes.wit_imports import parse_interfaces

EXPORTS = f"""
  (memory (export "memory") 2)
  (func (export "_initialize"))
  (func (export "svc_arena") (result i32) i32.const 1024)
  (func (export "{HANDLE}") (param i32 i32))
"""
TWICE = """
  (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi:http/types@0.2.4" "[constructor]fields" (func (result i32)))
  (import "svc" "into" (func (param i32 i32)))
"""


def module(imports: str = "", exports: str = EXPORTS) -> bytes:
    return bytes(wasmtime.wat2wasm(f"(module {imports} {exports})"))


def test_imports_get_unique_names() -> None:
    binary = read(module(TWICE))
    assert [(item.name, item.alias) for item in binary.imports] == [
        ("fd_write", "fd_write"),
        ("fd_write", "fd_write 2"),
        ("path_open", "path_open"),
        ("[constructor]fields", "[constructor]fields"),
        ("into", "into"),
    ]
    signature = "(param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)"
    assert binary.imports[2].signature.text() == signature
    assert {b"memory", b"_initialize", HANDLE.encode()} <= binary.exports
    assert read(binary.binary).exports == binary.exports
    wasmtime.Module(wasmtime.Engine(), binary.binary)


@pytest.mark.parametrize("imports", ["", TWICE])
def test_component_exports_the_handler(imports: str) -> None:
    binary = component(read(module(imports)))
    parsed = wasmtime.component.Component(wasmtime.Engine(), binary)
    exported = set(parsed.type.exports(wasmtime.Engine()))
    assert exported == {HANDLE.removesuffix("#handle")}


def test_component_imports_only_called_interfaces() -> None:
    def imported(imports: str) -> set[str]:
        engine = wasmtime.Engine()
        return set(
            wasmtime.component.Component(engine, component(read(module(imports)))).type.imports(engine)
        )

    outgoing = "wasi:http/outgoing-handler@0.2.4"
    handle = f'(import "{outgoing}" "handle" (func (param i32 i32 i32 i32)))'
    assert outgoing not in imported(TWICE) and outgoing in imported(handle)


@pytest.mark.parametrize("missing", ["memory", "_initialize", "svc_arena", HANDLE])
def test_module_without_a_required_export_is_rejected(missing: str) -> None:
    with pytest.raises(NoHandler):
        component(read(module(exports=EXPORTS.replace(f'"{missing}"', '"other"'))))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("elsewhere", "thing"),
        ("wasi:http/types@0.2.4", "nothing"),
        ("wasi:http/types@0.9.0", "x"),
        ("gojs", "a"),
    ],
)
def test_unavailable_import_is_named(source: str, name: str) -> None:
    with pytest.raises(NotHosted) as exc_info:
        component(read(module(f'(import "{source}" "{name}" (func))')))
    assert exc_info.value.names == [f"{source} {name}"]


@pytest.mark.parametrize("data", [b"", b"\0asm", b"no module", b"\0asm\x0d\0\x01\0"])
def test_invalid_module_is_rejected(data: bytes) -> None:
    with pytest.raises(UnsupportedBinary):
        read(data)


def test_unsupported_module_is_rejected() -> None:
    with pytest.raises(UnsupportedBinary, match="is not a function"):
        read(module('(import "a" "b" (global i32))', ""))
    with pytest.raises(UnsupportedBinary):
        read(MODULE_HEADER + section(1, uleb(1) + b"\x5f\0"))


@given(st.integers(0, 1 << 40))
def test_leb128_numbers_round_trip(number: int) -> None:
    ((kind, body),) = read_sections(MODULE_HEADER + section(1, uleb(number)))
    assert (kind, body) == (1, uleb(number))


WHOLE = module(TWICE)


@given(st.data())
def test_damaged_module_raises_only_unsupported_binary(data: st.DataObject) -> None:
    at = data.draw(st.integers(8, len(WHOLE)))
    removed = data.draw(st.integers(0, 40))
    damaged = WHOLE[:at] + data.draw(st.binary(max_size=40)) + WHOLE[at + removed :]
    try:
        binary = read(damaged)
    except UnsupportedBinary:
        return
    assert isinstance(binary, UnboundModule)
    assert read(binary.binary).exports == binary.exports


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_unsupported_binary(data: bytes) -> None:
    with suppress(UnsupportedBinary):
        assert isinstance(read(MODULE_HEADER + data), UnboundModule)


def test_parsed_interface_has_called_functions_and_types_of_others() -> None:
    result = parse_interfaces({"wasi:io/poll@0.2.4": {"poll"}, "wasi:unknown/x@0.2.4": {"y"}})
    assert '(export "poll"' in result.text and "[method]pollable.ready" not in result.text
    assert "wasi:http/types@0.2.4" in result.instances and "wasi:random/random@0.2.4" not in result.instances
    assert "[method]pollable.ready" in result.functions["wasi:io/poll@0.2.4"]
    wasmtime.wat2wasm(f"(component $world {result.text})")


def test_all_interfaces_together_are_well_formed() -> None:
    every = parse_interfaces({}).functions
    result = parse_interfaces(every)
    assert set(result.instances) == set(every)
    wasmtime.component.Component(wasmtime.Engine(), wasmtime.wat2wasm(f"(component $world {result.text})"))
