"""Components that are small to send, and slow or large to analyze, to compile or to instantiate.

`BOMBS` has a function for each kind. Its argument is the size: 1 for a component that compiles in a second,
100 for one that takes the compiler to its limits.
"""

from collections.abc import Callable

from wasmtime import wat2wasm

from engine.wasm.binary.reader import read_outline
from engine.wasm_binary import COMPONENT_HEADER, section, sleb, vector
from tests.engine.wasm import text_guest

MODULE, CORE_INSTANCE, COMPONENT, TYPE = 1, 2, 4, 7


def extended(*sections: tuple[int, bytes]) -> bytes:
    """Return the guest with further sections. Its core modules are 0 and 1."""
    return text_guest.component() + b"".join(section(kind, content) for kind, content in sections)


def module(text: str, instances: int = 1) -> bytes:
    made = CORE_INSTANCE, vector([b"\0\2\0"] * instances)
    return extended((MODULE, bytes(wat2wasm(f"(module {text})"))), *[made] * (instances > 0))


def function(body: str, head: str = "(local i32)") -> bytes:
    return module(f"(func {head} {body})")


def each(text: str, count: int) -> str:
    """Repeat a text with its number for `#`."""
    return "".join(text.replace("#", str(number)) for number in range(count))


def types(first: bytes, following: Callable[[bytes], bytes], count: int) -> bytes:
    """Return types of which each refers to the one before."""
    begin = len(read_outline(text_guest.component()).spaces["type"])
    return extended((TYPE, vector([first, *(following(sleb(begin + number)) for number in range(count))])))


def nested(size: int) -> bytes:
    inner = COMPONENT_HEADER
    for _ in range(size):
        inner = COMPONENT_HEADER + section(COMPONENT, inner)
    return extended((COMPONENT, inner))


def branches(size: int) -> str:
    assigned = each("local.get 0 if i32.const 1 local.set # end ", size)
    return assigned * 4 + each("local.get # drop ", size)


def loops(variables: int, depth: int) -> bytes:
    """Return nested loops around sums of many variables."""
    sums = "".join(
        f"local.get {(index * 7919 + 1) % variables} local.get {(index * 31 + 5) % variables}"
        f" i32.add local.set {index} "
        for index in range(variables)
    )
    body = "loop " * depth + sums + each("local.get # br_if 0 end ", depth)
    return function(body, f"(local {'i32 ' * variables})")


F64S = "f64 " * 1000
BOMBS: dict[str, Callable[[int], bytes]] = {
    "loops with variables": lambda n: loops(200 * n, 3 * n),
    "branches with variables": lambda n: function(branches(50 * n), f"(local {'i32 ' * 50 * n})"),
    "blocks": lambda n: function("block " * 1000 * n + "end " * 1000 * n),
    "loops": lambda n: function("loop " * 500 * n + "end " * 500 * n),
    "conditions": lambda n: function("local.get 0 if " * 500 * n + "end " * 500 * n),
    "expressions": lambda n: function("local.get 0 " * 2000 * n + "drop " * 2000 * n),
    "sums": lambda n: function("local.get 0 i32.const 3 i32.add local.set 0 " * 5000 * n),
    "divisions": lambda n: function("local.get 0 local.get 0 i32.div_s local.set 0 " * 2000 * n),
    "conversions": lambda n: function("local.get 0 i32.trunc_f64_s drop " * 1000 * n, "(local f64)"),
    "vectors": lambda n: function("local.get 0 local.get 0 i8x16.swizzle drop " * 2000 * n, "(local v128)"),
    "calls": lambda n: function("call 0 " * 5000 * n),
    "jumps": lambda n: function("block " * 50 * n + each("local.get 0 br_if # ", 50 * n) + "end " * 50 * n),
    "jump table": lambda n: function(f"block local.get 0 br_table {'0 ' * 10_000 * n} end"),
    "jump tables": lambda n: function(
        ("block " * 99 + "local.get 0 br_table " + each("# ", 99) + "end " * 99) * 5 * n
    ),
    "locals": lambda n: module(f"(func (local {'i32 ' * 500 * n}))" * 10),
    "functions": lambda n: module("(func)" * 2000 * n),
    "signatures": lambda n: module(
        f"(type (func (param {F64S}) (result {F64S})))"
        + f"(func (type 0) {each('local.get # ', 1000)} call 0 call 0)" * n
    ),
    "types": lambda n: module("(type (func))" * 5000 * n),
    "chained types": lambda n: module("(type (sub (func)))" + each("(type (sub # (func)))", 1000 * n)),
    "imports": lambda n: module(each('(import "m" "f#" (func))', 1000 * n), instances=0),
    "exports": lambda n: module("(func)" + each('(export "f#" (func 0))', 1000 * n)),
    "constant": lambda n: module(f"(global i32 i32.const 1 {'i32.const 1 i32.add ' * 10_000 * n})"),
    "globals": lambda n: module("(global i32 (i32.const 0))" * 2000 * n),
    "data": lambda n: module(f'(memory {16 * n}) (data (i32.const 0) "{"x" * (n << 19)}")'),
    "data segments": lambda n: module("(memory 9)" + each('(data (i32.const #) "x")', 1000 * n)),
    "passive data": lambda n: module("(memory 1)" + '(data "x")' * 1000 * n),
    "element segments": lambda n: module(
        "(func) (table 1 funcref)" + "(elem (i32.const 0) func 0)" * 1000 * n
    ),
    "elements": lambda n: module(f"(func) (elem func {'0 ' * 10_000 * n})"),
    "start function": lambda n: module("(func (loop br 0)) (start 0)"),
    "endless preinitialization": lambda n: module(
        f'(memory (export "memory") {n}) (func (export "_initialize") (loop br 0))'
        '(func (export "svc_freeze") (result i32) (i32.const 1))'
    ),
    "nested components": lambda n: nested(20 * n),
    "nested types": lambda n: types(b"\x70\x7d", lambda before: b"\x70" + before, 200 * n),
    "doubled types": lambda n: types(b"\x6f\1\x7d", lambda before: b"\x6f\2" + before * 2, 10 + n),
    "nested component types": lambda n: extended((TYPE, b"\1" + b"\x41\1\1" * 10 * n + b"\x41\0")),
    "inline instances": lambda n: extended((CORE_INSTANCE, vector([b"\1\0"] * 1000 * n))),
    "instances": lambda n: module("", instances=100 * n),
}
