import contextlib
import random

from wasmtime import Engine, wat2wasm
from wasmtime.component import Component

from engine.wasm.binary.memory_probe import HANDLER_INTERFACE, METERED_HANDLE, add_probe
from engine.wasm.binary.reader import read_outline
from engine.wasm.execution.config import Compiler, compile_config
from engine.wasm_binary import UnsupportedBinary, sleb

TYPES = """
  (import "wasi:http/types@0.2.3" (instance $types
    (export "incoming-request" (type (sub resource)))
    (export "response-outparam" (type (sub resource)))))
  (alias export $types "incoming-request" (type $request))
  (alias export $types "response-outparam" (type $out))
"""
CORE = f"""
  (core module $m
    (memory (export "memory") 3)
    (func (export "{HANDLER_INTERFACE}@0.2.3#handle") (param i32 i32))
    (func (export "other") (param i32 i32)))
  (core instance $i (instantiate $m))
  (alias core export $i "memory" (core memory $memory))
  (alias core export $i "memory" (core memory $again))
"""


def component(
    function: str = f"{HANDLER_INTERFACE}@0.2.3#handle", *, through: str = "bundle", types: str = TYPES
) -> bytes:
    """Make a component whose handler calls this core function, exported as builders do."""
    lifted = f"""
      (func $handle (param "request" (own $request)) (param "response-out" (own $out))
        (canon lift (core func $i "{function}")))"""
    exported = {
        "bundle": '(instance $handler (export "handle" (func $handle)))',
        "component": """
          (component $between
            (import "request" (type $request (sub resource)))
            (import "out" (type $out (sub resource)))
            (import "handle" (func $given (param "request" (own $request)) (param "response-out" (own $out))))
            (export "handle" (func $given)))
          (instance $handler (instantiate $between
            (with "request" (type $request)) (with "out" (type $out)) (with "handle" (func $handle))))""",
    }
    text = f'{types}{CORE}{lifted}{exported[through]}(export "{HANDLER_INTERFACE}@0.2.3" (instance $handler))'
    return bytes(wat2wasm(f"(component {text})"))


COMPONENT = component()


def test_outline_counts_aliased_memory_once() -> None:
    outline = read_outline(COMPONENT)
    assert outline.memories == [0]
    assert outline.size_of("core-memory") == 2
    assert outline.size_of("core-module") == 1


def test_probe_exports_metered_handler() -> None:
    engine = Engine(compile_config(Compiler.BASELINE))
    for plain in (COMPONENT, component("other"), component(through="component")):
        probed = add_probe(plain)
        assert probed.startswith(plain) and len(probed) - len(plain) < 400
        assert METERED_HANDLE in Component(engine, probed).type.exports(engine)


def test_probe_encodes_large_type_indices() -> None:
    engine = Engine(compile_config(Compiler.BASELINE))
    for count in (0, 40, 56, 58, 60, 62, 64, 200):
        types = TYPES + "".join(f"(type $t{i} (list (own $out)))" for i in range(count))
        assert METERED_HANDLE in Component(engine, add_probe(component(types=types))).type.exports(engine)
    assert (sleb(5), sleb(63), sleb(64), sleb(8192)) == (b"\5", b"\x3f", b"\xc0\0", b"\x80\xc0\0")


def test_handler_behind_unknown_component_is_not_probed() -> None:
    plain = component("other", through="component")
    assert add_probe(plain) == plain


def test_unsupported_component_is_not_probed() -> None:
    for data in (b"", b"\0asm\1\0\0\0", b"not wasm at all", COMPONENT[:-3]):
        assert add_probe(data) == data


def test_reader_raises_only_unsupported_binary() -> None:
    dice = random.Random(7)
    for _ in range(3000):
        data = bytearray(COMPONENT)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(8, len(data))] = dice.randrange(256)
        with contextlib.suppress(UnsupportedBinary):
            read_outline(bytes(data[: dice.randint(8, len(data))]))
        add_probe(bytes(data))
