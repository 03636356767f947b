import contextlib
import random

from wasmtime import Engine, wat2wasm
from wasmtime.component import Component

from engine.wasm.config import Compiler, compile_config
from engine.wasm.memory_probe import PREFIX, add_probe
from engine.wasm.scan import Unscannable, scan

COMPONENT = bytes(
    wat2wasm(
        """(component
          (core module $m (memory (export "memory") 3) (func (export "f")))
          (core instance $i (instantiate $m))
          (alias core export $i "memory" (core memory $memory))
          (alias core export $i "memory" (core memory $again))
          (func (export "run") (canon lift (core func $i "f"))))"""
    )
)


def test_the_outline_counts_a_memory_once_however_often_it_is_named() -> None:
    outline = scan(COMPONENT)
    assert outline.memories == [0]
    assert outline.length("core-memory") == 2
    assert outline.length("core-module") == 1


def test_a_probed_component_compiles_and_exports_one_probe_a_memory() -> None:
    probed = add_probe(COMPONENT)
    assert probed.startswith(COMPONENT)
    engine = Engine(compile_config(Compiler.BASELINE))
    assert f"{PREFIX}0" in Component(engine, probed).type.exports(engine)


def test_what_can_not_be_scanned_is_left_as_it_is() -> None:
    for data in (b"", b"\0asm\1\0\0\0", b"not wasm at all", COMPONENT[:-3]):
        assert add_probe(data) == data


def test_no_mutation_makes_the_scanner_fail_in_another_way() -> None:
    dice = random.Random(7)
    for _ in range(3000):
        data = bytearray(COMPONENT)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(8, len(data))] = dice.randrange(256)
        with contextlib.suppress(Unscannable):
            scan(bytes(data[: dice.randint(8, len(data))]))
