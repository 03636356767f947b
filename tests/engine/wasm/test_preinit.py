"""Pre-initialized guests: instances start from the captured state."""

import random

import pytest
from wasmtime import Engine, Store, wat2wasm
from wasmtime.component import Component, Linker

from engine.wasm.binary.preinit import preinitialize
from engine.wasm.compile.compilers import Compiler
from engine.wasm.execution.config import compile_config

IMPORTS = """
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))"""
FREEZE = '(func (export "svc_freeze") (result i32) (global.set $frozen (i32.const 1)) (i32.const 1))'
START = """
  (i32.store (i32.const 65540) (i32.const 0x01020304))
  (drop (call $random (i32.const 8) (i32.const 3)))
  (drop (memory.grow (i32.const 2)))
  (global.set $long (i64.const -9000000000))
  (global.set $count (i32.add (global.get $count) (i32.const 1)))"""


def guest(start: str = START, *, freeze: str = FREEZE, declared: str = "", instances: int = 1) -> bytes:
    """Return a component with a pre-initializable runtime, as built by the go lane.

    Its own host provides nothing: `_initialize` fails if it is called in an instance.
    """
    second = "".join("(core instance (instantiate $module (with $host)))" for _ in range(instances - 1))
    second = second.replace("(with $host)", '(with "wasi_snapshot_preview1" (instance $host))')
    lifted = "".join(
        f'(func (export "{name}") {parameter} (result {result}) (canon lift (core func $main "{name}")))'
        for name, parameter, result in (
            ("byte", '(param "at" u32)', "u32"),
            ("pages", "", "u32"),
            ("count", "", "s32"),
            ("long", "", "s64"),
        )
    )
    return bytes(
        wat2wasm(f"""(component
          (core module $answers
            (func (export "random_get") (param i32 i32) (result i32) unreachable)
            (func (export "fd_write") (param i32 i32 i32 i32) (result i32) unreachable))
          (core instance $host (instantiate $answers))
          (core module $module
            {IMPORTS}
            (memory (export "memory") 2)
            (global $count (mut i32) (i32.const 11))
            (global $long (mut i64) (i64.const 1))
            (global $fixed i32 (i32.const 200))
            (global $frozen (mut i32) (i32.const 0))
            (data (i32.const 11) "abc")
            {declared}
            (func (export "_initialize") {start})
            {freeze}
            (func (export "byte") (param i32) (result i32) (i32.load8_u (local.get 0)))
            (func (export "pages") (result i32) memory.size)
            (func (export "count") (result i32)
              (i32.add (i32.add (global.get $count) (global.get $fixed))
                (i32.mul (i32.const 1000) (global.get $frozen))))
            (func (export "long") (result i64) global.get $long))
          (core instance $main (instantiate $module (with "wasi_snapshot_preview1" (instance $host))))
          {second}
          (core module $initialize (import "main" "_initialize" (func $run)) (start $run))
          (core instance (instantiate $initialize (with "main" (instance $main))))
          {lifted})""")
    )


class Running:
    """An instance of a component."""

    def __init__(self, component: bytes) -> None:
        engine = Engine(compile_config(Compiler.BASELINE))
        self._store = Store(engine)
        self._store.set_epoch_deadline(1)
        self._instance = Linker(engine).instantiate(self._store, Component(engine, component))

    def ask(self, name: str, *arguments: int) -> int:
        function = self._instance.get_func(self._store, name)
        assert function is not None
        answer = function(self._store, *arguments)
        function.post_return(self._store)
        assert isinstance(answer, int)
        return answer


def test_instance_starts_with_captured_memory_and_globals() -> None:
    running = Running(preinitialize(guest()))
    assert [running.ask("byte", at) for at in (11, 12, 13, 14)] == [97, 98, 99, 0]
    assert [running.ask("byte", at) for at in (65540, 65543, 65544)] == [4, 1, 0]
    assert running.ask("pages") == 4
    assert running.ask("count") == 1212
    assert running.ask("long") == -9_000_000_000


def test_startup_randomness_is_from_compile_time() -> None:
    instances = [Running(preinitialize(guest())) for _ in range(3)]
    assert len({tuple(each.ask("byte", at) for at in range(8, 11)) for each in instances}) > 1


def test_memory_of_any_pattern_is_captured_exactly() -> None:
    dice = random.Random(5)
    stored = {dice.randrange(20, 131_000): dice.randrange(256) for _ in range(300)}
    stored |= {131_071: 1, 15: 0, 16: 255, 40: 0}
    stores = "".join(f"(i32.store8 (i32.const {at}) (i32.const {value}))" for at, value in stored.items())
    running = Running(preinitialize(guest(stores)))
    assert {at: running.ask("byte", at) for at in stored} == stored


LEFT = {
    "does not say that it can": guest(freeze=""),
    "says that it can not": guest(freeze=FREEZE.replace("(i32.const 1))", "(i32.const 0))")),
    "says nothing": guest(freeze='(func (export "svc_freeze"))'),
    "is no function": guest(freeze='(global (export "svc_freeze") i32 (i32.const 1))'),
    "computes without end": guest("(loop $on (br $on))"),
    "fails": guest("unreachable"),
    "lies about its memory": guest("(drop (call $random (i32.const -1) (i32.const 9)))"),
    "wants much randomness": guest("(drop (call $random (i32.const 8) (i32.const 65536)))"),
    "wants much memory": guest(
        "(drop (memory.grow (i32.const 5000)))(i32.store (i32.const 9000000) (i32.const 1))"
    ),
    "asks what a request answers": guest(
        "(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))"
    ),
    "starts by itself": guest(declared="(func $begin) (start $begin)"),
    "copies data later": guest(declared='(data "later")'),
    "has what is not kept": guest(declared="(global $rate (mut f64) (f64.const 0))"),
    "is there twice": guest(instances=2),
}


@pytest.mark.parametrize("plain", LEFT.values(), ids=LEFT)
def test_unsuitable_guest_stays_unchanged(plain: bytes) -> None:
    assert preinitialize(plain) is plain


def test_mutated_component_never_raises_in_preinit() -> None:
    complete = guest()
    dice = random.Random(11)
    for data in (b"", b"svc_freeze", complete[:200] + b"svc_freeze", complete[:-9]):
        assert preinitialize(data) is data
    for _ in range(1500):
        data = bytearray(complete)
        for _ in range(dice.randint(1, 3)):
            data[dice.randrange(8, len(data))] = dice.randrange(256)
        preinitialize(bytes(data[: dice.choice([len(data), dice.randint(8, len(data))])]))
