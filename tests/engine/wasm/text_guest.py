"""A guest in WebAssembly text; the request path selects its behavior: one letter, then a number.

It is created in milliseconds without a toolchain, and accesses its memory, tables and globals directly.
`ROUTES` lists the letters.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from wasmtime import wat2wasm

from engine.artifact import ComponentArtifact
from engine.files.atomic import write_atomic
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Guest, Runner
from lanes.wit_imports import parse_interfaces
from tests.engine.wasm.text_memories import IMPORTED_MEMORY, IMPORTED_OTHER, MEMORY, OTHER, PADDING, indirect

HTTP, STREAMS, CLOCK = "wasi:http/types@0.2.4", "wasi:io/streams@0.2.4", "wasi:clocks/monotonic-clock@0.2.4"
HANDLER = "wasi:http/incoming-handler@0.2.4"
_STREAM = "[method]output-stream."
_CALLS = {
    "path": (HTTP, "[method]incoming-request.path-with-query", "(param i32 i32)"),
    "consume": (HTTP, "[method]incoming-request.consume", "(param i32 i32)"),
    "input": (HTTP, "[method]incoming-body.stream", "(param i32 i32)"),
    "fields": (HTTP, "[constructor]fields", "(result i32)"),
    "append": (HTTP, "[method]fields.append", "(param i32 i32 i32 i32 i32 i32)"),
    "response": (HTTP, "[constructor]outgoing-response", "(param i32) (result i32)"),
    "body": (HTTP, "[method]outgoing-response.body", "(param i32 i32)"),
    "output": (HTTP, "[method]outgoing-body.write", "(param i32 i32)"),
    "set": (HTTP, "[static]response-outparam.set", "(param i32 i32 i32 i32 i64 i32 i32 i32 i32)"),
    "finish": (HTTP, "[static]outgoing-body.finish", "(param i32 i32 i32 i32)"),
    "read": (STREAMS, "[method]input-stream.blocking-read", "(param i32 i64 i32)"),
    "flush": (STREAMS, f"{_STREAM}blocking-write-and-flush", "(param i32 i32 i32 i32)"),
    "send": (STREAMS, f"{_STREAM}flush", "(param i32 i32)"),
    "permit": (STREAMS, f"{_STREAM}check-write", "(param i32 i32)"),
    "write": (STREAMS, f"{_STREAM}write", "(param i32 i32 i32 i32)"),
    "now": (CLOCK, "now", "(result i64)"),
    "after": (CLOCK, "subscribe-duration", "(param i64) (result i32)"),
    "block": ("wasi:io/poll@0.2.4", "[method]pollable.block", "(param i32)"),
    "environment": ("wasi:cli/environment@0.2.4", "get-environment", "(param i32)"),
    "exit": ("wasi:cli/exit@0.2.4", "exit", "(param i32)"),
    "stdout": ("wasi:cli/stdout@0.2.4", "get-stdout", "(result i32)"),
    "stderr": ("wasi:cli/stderr@0.2.4", "get-stderr", "(result i32)"),
    "random": ("wasi:random/random@0.2.4", "get-random-bytes", "(param i64 i32)"),
}
_DROPS = {"drop-output": (STREAMS, "output-stream"), "drop-pollable": ("wasi:io/poll@0.2.4", "pollable")}

ROUTES = {
    "h": ("say hello", "(call $say (i32.const 512) (i32.const 6))"),
    "l": ("compute for ever", "(loop $l br $l)"),
    "L": ("say hello, then compute for ever", "(call $say (i32.const 512) (i32.const 6)) (loop $l br $l)"),
    "c": ("ask for the time for ever", "(loop $l (drop (call $now)) br $l)"),
    "s": ("sleep for n ms, then say hello", "(call $sleep) (call $say (i32.const 512) (i32.const 6))"),
    "k": (
        "say hello, sleep for n ms, and so on for ever",
        "(loop $l (call $say (i32.const 512) (i32.const 6)) (call $sleep) br $l)",
    ),
    "w": (
        "write n times 4 KiB of data",
        """(call $begin) (loop $l
          (if (i32.eqz (global.get $n)) (then (return (call $end))))
          (call $say (i32.const 4096) (i32.const 4096))
          (global.set $n (i32.sub (global.get $n) (i32.const 1))) br $l)""",
    ),
    "p": (
        "print n times 4096 empty lines",
        """(memory.fill (i32.const 4096) (i32.const 10) (i32.const 4096))
        (global.set $out (call $stdout))
        (loop $l
          (if (i32.eqz (global.get $n)) (then (return (call $say (i32.const 512) (i32.const 6)))))
          (call $flush (global.get $out) (i32.const 4096) (i32.const 4096) (i32.const 256))
          (global.set $n (i32.sub (global.get $n) (i32.const 1))) br $l)""",
    ),
    "u": (
        "read the whole request body n bytes at a time, then say hello",
        """(call $open) (loop $l
          (global.set $next (i32.const 65536))
          (call $read (global.get $in) (i64.extend_i32_u (global.get $n)) (i32.const 256))
          (br_if $l (i32.eqz (i32.load8_u (i32.const 256)))))
        (call $say (i32.const 512) (i32.const 6))""",
    ),
    "q": (
        "say hello and end the answer, then read the request body to its end",
        """(call $open) (call $say (i32.const 512) (i32.const 6)) (call $end)
        (loop $l
          (global.set $next (i32.const 65536))
          (call $read (global.get $in) (i64.const 4096) (i32.const 256))
          (br_if $l (i32.eqz (i32.load8_u (i32.const 256)))))
        return""",
    ),
    "e": (
        "send each part of the request body back as it comes",
        """(call $open) (call $begin) (loop $l
          (global.set $next (i32.const 65536))
          (call $read (global.get $in) (i64.const 4096) (i32.const 256))
          (if (i32.eqz (i32.load8_u (i32.const 256))) (then
            (call $say (i32.load (i32.const 260)) (i32.load (i32.const 264))) (br $l))))""",
    ),
    "g": (
        "grow the memory by one MiB at a time, write to it, give up when there is no more",
        """(loop $l
          (global.set $at (memory.grow (i32.const 16)))
          (if (i32.eq (global.get $at) (i32.const -1)) (then unreachable))
          (memory.fill (i32.shl (global.get $at) (i32.const 16)) (i32.const 170) (i32.const 1048576))
          br $l)""",
    ),
    "G": (
        "grow the memory by n MiB, write to it, wait for 300 ms, then say hello",
        """(loop $l
          (global.set $at (memory.grow (i32.const 16)))
          (if (i32.eq (global.get $at) (i32.const -1)) (then unreachable))
          (memory.fill (i32.shl (global.get $at) (i32.const 16)) (i32.const 170) (i32.const 1048576))
          (global.set $n (i32.sub (global.get $n) (i32.const 1))) (br_if $l (global.get $n)))
        (global.set $n (i32.const 300)) (call $sleep) (call $say (i32.const 512) (i32.const 6))""",
    ),
    "o": ("grow the memory until there is no more, and complain as languages do", "(call $exhaust)"),
    "O": ("say hello, then the same", "(call $say (i32.const 512) (i32.const 6)) (call $exhaust)"),
    "f": ("make fields for ever", "(loop $l (drop (call $fields)) br $l)"),
    "a": (
        "append to one field for ever",
        """(global.set $at (call $fields)) (loop $l
          (call $append (global.get $at) (i32.const 512) (i32.const 5) (i32.const 512) (i32.const 5)
            (i32.const 256))
          br $l)""",
    ),
    "t": ("trap", "unreachable"),
    "x": ("exit", "(call $exit (i32.const 1))"),
    "r": (
        "send n random bytes, then what the clock said first",
        """(call $random (i64.extend_i32_u (global.get $n)) (i32.const 256))
        (call $say (i32.load (i32.const 256)) (i32.load (i32.const 260)))
        (call $say (i32.const 768) (i32.const 8))""",
    ),
    "v": (
        "send the environment, as the host wrote it into the memory",
        """(global.set $next (i32.const 65536)) (call $environment (i32.const 256))
        (call $say (i32.const 65536) (i32.sub (global.get $next) (i32.const 65536)))""",
    ),
    "d": ("drop stream handle n, which it was not given", "(call $drop-output (global.get $n))"),
    "i": ("see below", "(call $inspect) (call $leave)"),
    "j": ("the same, twice", "(call $inspect) (call $inspect)"),
    "I": (
        "send a checksum of the whole memory without the clock, then as i",
        """(i64.store (i32.const 768) (i64.const 0)) (i64.store (i32.const 776) (call $checksum))
        (call $say (i32.const 776) (i32.const 8)) (call $inspect) (call $leave)""",
    ),
    "W": (
        "write the whole memory, n pages, in one call",
        """(drop (memory.grow (global.get $n))) (call $begin)
        (call $permit (global.get $out) (i32.const 256))
        (call $write (global.get $out) (i32.const 0)
          (i32.shl (memory.size) (i32.const 16)) (i32.const 256))""",
    ),
    "m": (
        "grow this memory and the other one, MiB by MiB, and tell how many pages both have in the end",
        """(call $begin) (loop $l
          (global.set $at (memory.grow (i32.const 16)))
          (drop (call $grow-other (i32.const 16)))
          (br_if $l (i32.ne (global.get $at) (i32.const -1))))
        (loop $l (br_if $l (i32.ne (call $grow-other (i32.const 16)) (i32.const -1))))
        (i32.store (i32.const 256) (i32.add (memory.size) (call $size-of-other)))
        (call $say (i32.const 256) (i32.const 4))""",
    ),
}
"""Letter -> what it does, and how.

`i`: report non-initial state (one letter each for "memory", "image", "grown", "global", "table"), then make
everything dirty: all memory, grown to what is allowed, globals, the table, the stack. Then it ends by n:
0 well, 1 with a trap, 2 with an exit, 3 never, 4 by more recursion than there is room for.
"""

_CODE = """
(global $n (mut i32) (i32.const 0)) (global $at (mut i32) (i32.const 0))
(global $out (mut i32) (i32.const -1)) (global $in (mut i32) (i32.const 0))
(global $kept (mut i32) (i32.const 0)) (global $param (mut i32) (i32.const 0))
(global $request (mut i32) (i32.const 0))
(global $sum (mut i64) (i64.const 7))
(table $table 100 20000 funcref) (elem (table $table) (i32.const 3) func $sleep)
(data (i32.const 512) "hello\\n") (data (i32.const 2097152) "image of the memory")
(data (i32.const 520) "migxt") (data (i32.const 530) "out of memory\\n")
(func $exhaust
  (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
  (call $flush (call $stderr) (i32.const 530) (i32.const 14) (i32.const 256)) unreachable)
(func $sleep (local $pollable i32)
  (local.set $pollable (call $after (i64.mul (i64.extend_i32_u (global.get $n)) (i64.const 1000000))))
  (call $block (local.get $pollable)) (call $drop-pollable (local.get $pollable)))
(func $open
  (call $consume (global.get $request) (i32.const 256))
  (call $input (i32.load (i32.const 260)) (i32.const 256))
  (global.set $in (i32.load (i32.const 260))))
(func $begin (local $response i32)
  (local.set $response (call $response (call $fields)))
  (call $body (local.get $response) (i32.const 256))
  (global.set $kept (i32.load (i32.const 260)))
  (call $output (global.get $kept) (i32.const 256))
  (global.set $out (i32.load (i32.const 260)))
  (call $set (global.get $param) (i32.const 0) (local.get $response) (i32.const 0) (i64.const 0)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))
(func $say (param $from i32) (param $size i32)
  (if (i32.eqz (global.get $kept)) (then (call $begin)))
  (call $flush (global.get $out) (local.get $from) (local.get $size) (i32.const 256))
  (if (i32.load8_u (i32.const 256)) (then unreachable))
  (call $send (global.get $out) (i32.const 256)))
(func $end
  (call $drop-output (global.get $out))
  (call $finish (global.get $kept) (i32.const 0) (i32.const 0) (i32.const 256)))
(func $deep (param $left i32) (result i32) (local i64 i64 i64 i64 i64 i64 i64 i64)
  (if (result i32) (i32.eqz (local.get $left)) (then (i32.const 0)) (else
    (i32.add (i32.const 1) (call $deep (i32.sub (local.get $left) (i32.const 1)))))))
(func $zeroes (param $from i32) (param $to i32) (result i32)
  (loop $l
    (if (i32.ge_u (local.get $from) (local.get $to)) (then (return (i32.const 0))))
    (if (i64.ne (i64.load (local.get $from)) (i64.const 0)) (then (return (i32.const 1))))
    (local.set $from (i32.add (local.get $from) (i32.const 8))) br $l)
  unreachable)
(func $checksum (result i64) (local $at i32) (local $sum i64)
  (loop $l
    (local.set $sum (i64.mul (i64.const 0x100000001b3)
      (i64.xor (local.get $sum) (i64.load (local.get $at)))))
    (local.set $at (i32.add (local.get $at) (i32.const 8)))
    (br_if $l (i32.lt_u (local.get $at) (i32.shl (memory.size) (i32.const 16)))))
  (local.get $sum))
(func $tell (param $letter i32) (param $bad i32)
  (if (local.get $bad) (then (call $say (local.get $letter) (i32.const 1)))))
(func $inspect (local $end i32)
  (if (i32.eqz (global.get $kept)) (then (call $begin)))
  (call $send (global.get $out) (i32.const 256))
  (local.set $end (i32.shl (memory.size) (i32.const 16)))
  (call $tell (i32.const 520) (call $zeroes (i32.const 131072) (i32.const 2097152)))
  (call $tell (i32.const 521) (i32.or
    (i64.ne (i64.load (i32.const 2097152)) (i64.const 0x666f206567616d69))
    (call $zeroes (i32.const 2097176) (local.get $end))))
  (call $tell (i32.const 522) (i32.or (i64.ne (global.get $sum) (i64.const 7))
    (i32.ne (memory.size) (i32.const 40))))
  (call $tell (i32.const 523) (i32.or (i32.ne (call $size-of-other) (i32.const 1))
    (i32.ne (call $load-other (i32.const 60000)) (i32.const 0))))
  (call $tell (i32.const 524) (i32.or (i32.ne (table.size $table) (i32.const 100))
    (i32.or (ref.is_null (table.get $table (i32.const 3)))
      (i32.eqz (ref.is_null (table.get $table (i32.const 4)))))))
  (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
  (memory.fill (i32.const 131072) (i32.const 170)
    (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 131072)))
  (drop (call $grow-other (i32.const 16)))
  (call $fill-other (i32.const 0) (i32.const 170) (i32.const 65536))
  (global.set $sum (i64.const -1))
  (drop (table.grow $table (ref.func $sleep) (i32.const 19900)))
  (table.fill $table (i32.const 0) (ref.func $sleep) (table.size $table))
  (table.set $table (i32.const 3) (ref.null func))
  (drop (call $deep (i32.const 3000))))
(func $leave
  (if (i32.eq (global.get $n) (i32.const 1)) (then unreachable))
  (if (i32.eq (global.get $n) (i32.const 2)) (then (call $exit (i32.const 1))))
  (if (i32.eq (global.get $n) (i32.const 3)) (then (loop $l br $l)))
  (if (i32.eq (global.get $n) (i32.const 4)) (then (drop (call $deep (i32.const 2000000000))))))
"""


@cache
def component(*, hosted: bool = False) -> bytes:
    """Return the guest. `hosted`: this host maps its memory, instead of wasmtime."""
    called: dict[str, list[str]] = {}
    for interface, name, _ in _CALLS.values():
        called.setdefault(interface, []).append(name)
    wit = parse_interfaces(called)
    lowered = [
        f'(core func ${short} (canon lower (func {wit.instances[interface]} "{name}")'
        f" (memory $memory) (realloc $realloc)))"
        for short, (interface, name, _) in _CALLS.items()
    ] + [
        f'(alias export {wit.instances[interface]} "{kind}" (type ${short}-type))'
        f"(core func ${short} (canon resource.drop ${short}-type))"
        for short, (interface, kind) in _DROPS.items()
    ]
    signatures = {name: call[2] for name, call in _CALLS.items()} | dict.fromkeys(_DROPS, "(param i32)")
    imported = "\n".join(
        f'(import "host" "{name}" (func ${name} {signature}))' for name, signature in signatures.items()
    )
    exports = " ".join(f'(export "{name}" (func ${name}))' for name in signatures)
    routes = "\n".join(
        f"(if (i32.eq (local.get $letter) (i32.const {ord(letter)})) (then {code} (call $end) return))"
        for letter, (_, code) in ROUTES.items()
    )
    main = f"""(core module $main
  {imported}
  {IMPORTED_OTHER + MEMORY + PADDING if hosted else IMPORTED_MEMORY + OTHER}
  {_CODE}
  (func (export "handle") (param $request i32) (param $param i32)
    (local $letter i32) (local $p i32) (local $to i32)
    (i64.store (i32.const 768) (call $now))
    (global.set $request (local.get $request)) (global.set $param (local.get $param))
    (call $path (local.get $request) (i32.const 256))
    (local.set $p (i32.load (i32.const 260)))
    (local.set $to (i32.add (local.get $p) (i32.load (i32.const 264))))
    (local.set $letter (i32.load8_u offset=1 (local.get $p)))
    (local.set $p (i32.add (local.get $p) (i32.const 2)))
    (block $done (loop $l
      (br_if $done (i32.ge_u (local.get $p) (local.get $to)))
      (global.set $n (i32.add (i32.mul (global.get $n) (i32.const 10))
        (i32.sub (i32.load8_u (local.get $p)) (i32.const 48))))
      (local.set $p (i32.add (local.get $p) (i32.const 1))) (br $l)))
    {routes}
    unreachable))"""
    functions = chr(10).join(lowered)
    if hosted:
        stubs, fill = indirect(signatures)
        modules = f"""{stubs}
(core instance $stubs-instance (instantiate $stubs))
(core module $other {OTHER})
(core instance $other-instance (instantiate $other))
{main}
(core instance $main-instance (instantiate $main
  (with "host" (instance $stubs-instance)) (with "other" (instance $other-instance))))
(alias core export $main-instance "memory" (core memory $memory))
(alias core export $main-instance "realloc" (core func $realloc))
{functions}
{fill}
(core instance (instantiate $fill
  (with "stubs" (instance $stubs-instance)) (with "host" (instance {exports}))))"""
    else:
        modules = f"""(core module $memory-module {MEMORY})
(core instance $memory-instance (instantiate $memory-module))
(alias core export $memory-instance "memory" (core memory $memory))
(alias core export $memory-instance "realloc" (core func $realloc))
{functions}
{main}
(core instance $main-instance (instantiate $main
  (with "host" (instance {exports})) (with "memory" (instance $memory-instance))))"""
    text = f"""(component $world
{wit.text}
{modules}
(alias export {wit.instances[HTTP]} "incoming-request" (type $handled))
(alias export {wit.instances[HTTP]} "response-outparam" (type $answered))
(func $handle (param "request" (own $handled)) (param "response-out" (own $answered))
  (canon lift (core func $main-instance "handle")))
(instance $handler (export "handle" (func $handle)))
(export "{HANDLER}" (instance $handler)))"""
    return bytes(wat2wasm(text))


def artifact(folder: Path, data: bytes = b"") -> ComponentArtifact:
    """Return the guest, or another component, as an artifact of a lane."""
    data = data or component()
    digest = sha256(data).hexdigest()
    path = folder / "components" / f"{digest}.wasm"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)  # Tests of other processes read the same file.
    return ComponentArtifact(path, digest)


def serve(
    cache: Path,
    test: Callable[[Guest, Runner], Awaitable[Any]],
    *,
    pool: Any = None,
    fast: bool = False,
    data: bytes = b"",
    **fields: Any,
) -> Any:
    """Run `await test(guest, runner)` on a fresh runner, with this guest or the component `data`.

    `fields` are the resource's.
    """

    async def main() -> Any:
        runner = Runner(cache, pool)
        try:
            resource = Resource("api", "rust", Path("/"), **fields)
            guest = await runner.guest(
                resource, artifact(cache, data), {}, fast=fast, report=lambda line: None
            )
            return await test(guest, runner)
        finally:
            await runner.aclose()

    return asyncio.run(main())
