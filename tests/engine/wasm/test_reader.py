import contextlib
import random

import pytest
from wasmtime import Engine, wat2wasm
from wasmtime.component import Component

from engine.wasm.binary.reader import read_outline
from engine.wasm.compile.compilers import Compiler
from engine.wasm.execution.config import compile_config
from engine.wasm.weave.builder import RUN
from engine.wasm.weave.weaver import HANDLER_INTERFACE, weave
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


def test_outline_has_every_item() -> None:
    outline = read_outline(COMPONENT)
    assert len(outline.spaces["core-memory"]) == 2
    assert len(outline.spaces["core-module"]) == 1


@pytest.mark.parametrize(
    ("function", "through"),
    [
        (f"{HANDLER_INTERFACE}@0.2.3#handle", "bundle"),
        ("other", "bundle"),
        (f"{HANDLER_INTERFACE}@0.2.3#handle", "component"),
        ("other", "component"),
    ],
)
def test_handler_is_found_behind_bundles_and_components(function: str, through: str) -> None:
    engine = Engine(compile_config(Compiler.BASELINE))
    woven = weave(component(function, through=through))
    assert list(Component(engine, woven).type.exports(engine)) == [RUN]


def test_type_indices_of_any_size_are_read() -> None:
    for count in (0, 40, 56, 58, 60, 62, 64, 200):
        types = TYPES + "".join(f"(type $t{i} (list (own $out)))" for i in range(count))
        assert weave(component(types=types)) == weave(COMPONENT)
    assert (sleb(5), sleb(63), sleb(64), sleb(8192)) == (b"\5", b"\x3f", b"\xc0\0", b"\x80\xc0\0")


def test_reader_raises_only_unsupported_binary() -> None:
    dice = random.Random(7)
    for _ in range(3000):
        data = bytearray(COMPONENT)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(8, len(data))] = dice.randrange(256)
        with contextlib.suppress(UnsupportedBinary):
            read_outline(bytes(data[: dice.randint(8, len(data))]))
