"""A guest in WebAssembly text that echoes the request body, with the structure of built components.

The first 16 bytes of the body are four numbers: the size of a read, the size of a write,
where memory for a read is (an offset, so that pointers may be odd), and a `Mode`.
"""

from enum import IntEnum
from functools import cache

import wasmtime

from lanes.wit_imports import parse_interfaces

VERSION = "0.2.4"
HANDLER = f"wasi:http/incoming-handler@{VERSION}"
HEADER = 16


class Mode(IntEnum):
    """Modes of the guest; the first two echo its input."""

    CHECKED = 0
    BLOCKING = 1
    BEYOND_PERMIT = 2
    """A write of one byte more than permitted."""
    PERMITS = 3
    """The permits before and after a write of three bytes, as numbers, and no echo."""
    EMPTY = 4
    """As CHECKED, with writes of no bytes around each."""
    BEYOND_MEMORY = 5
    """A write that starts inside the memory and ends outside."""


# name -> (interface, function, core signature, needs memory)
CALLS = {
    "consume": ("http/types", "[method]incoming-request.consume", "i32 i32", ""),
    "input": ("http/types", "[method]incoming-body.stream", "i32 i32", ""),
    "fields": ("http/types", "[constructor]fields", "", "i32"),
    "response": ("http/types", "[constructor]outgoing-response", "i32", "i32"),
    "body": ("http/types", "[method]outgoing-response.body", "i32 i32", ""),
    "output": ("http/types", "[method]outgoing-body.write", "i32 i32", ""),
    "set": ("http/types", "[static]response-outparam.set", "i32 i32 i32 i32 i64 i32 i32 i32 i32", ""),
    "finish": ("http/types", "[static]outgoing-body.finish", "i32 i32 i32 i32", ""),
    "read": ("io/streams", "[method]input-stream.read", "i32 i64 i32", ""),
    "blocking-read": ("io/streams", "[method]input-stream.blocking-read", "i32 i64 i32", ""),
    "check": ("io/streams", "[method]output-stream.check-write", "i32 i32", ""),
    "write": ("io/streams", "[method]output-stream.write", "i32 i32 i32 i32", ""),
    "write-now": ("io/streams", "[method]output-stream.blocking-write-and-flush", "i32 i32 i32 i32", ""),
    "subscribe": ("io/streams", "[method]output-stream.subscribe", "i32", "i32"),
    "block": ("io/poll", "[method]pollable.block", "i32", ""),
}
DROPS = {"drop-output": ("io/streams", "output-stream"), "drop-pollable": ("io/poll", "pollable")}
BASE = 0x20000
PAGES = 8
"""Pages of the guest's memory."""
MAIN = f"""
  (memory (export "memory") {PAGES})
  (global $place (mut i32) (i32.const 0))
  (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.add (i32.const {BASE}) (global.get $place)))
    ;; A byte in front of the list and one after it, for $intact.
    (i32.store8 (i32.sub (local.get $at) (i32.const 1)) (i32.const 0xa5))
    (i32.store8 (i32.add (local.get $at) (local.get $size)) (i32.const 0xa5))
    (local.get $at))
  (func (export "trapping-realloc") (param i32 i32 i32 i32) (result i32) unreachable)
  (func $intact (param $at i32) (param $size i32)
    (if (i32.ne (local.get $at) (i32.add (i32.const {BASE}) (global.get $place))) (then unreachable))
    (if (i32.ne (i32.load8_u (i32.sub (local.get $at) (i32.const 1))) (i32.const 0xa5)) (then unreachable))
    (if (i32.ne (i32.load8_u (i32.add (local.get $at) (local.get $size))) (i32.const 0xa5))
      (then unreachable)))
  (func $room (param $out i32) (result i32)
    (local $pollable i32)
    (loop $again (result i32)
      (call $check (local.get $out) (i32.const 64))
      (if (i32.load8_u (i32.const 64)) (then unreachable))
      (if (i64.eqz (i64.load (i32.const 72)))
        (then
          (local.set $pollable (call $subscribe (local.get $out)))
          (call $block (local.get $pollable))
          (call $drop-pollable (local.get $pollable))
          (br $again)))
      (i32.wrap_i64 (i64.load (i32.const 72)))))
  (func $put (param $out i32) (param $at i32) (param $size i32)
    (call $write (local.get $out) (local.get $at) (local.get $size) (i32.const 64))
    (if (i32.load8_u (i32.const 64)) (then unreachable)))
  (func $least (param $a i32) (param $b i32) (result i32)
    (select (local.get $a) (local.get $b) (i32.lt_u (local.get $a) (local.get $b))))
  (func (export "handle") (param $request i32) (param $outparam i32)
    (local $in i32) (local $body i32) (local $response i32) (local $out i32) (local $most i64)
    (local $at i32) (local $left i32) (local $piece i32) (local $carry i32) (local $mode i32)
    (call $consume (local.get $request) (i32.const 64))
    (call $input (i32.load (i32.const 68)) (i32.const 64))
    (local.set $in (i32.load (i32.const 68)))
    (local.set $response (call $response (call $fields)))
    (call $body (local.get $response) (i32.const 64))
    (local.set $body (i32.load (i32.const 68)))
    (call $output (local.get $body) (i32.const 64))
    (local.set $out (i32.load (i32.const 68)))
    (call $set (local.get $outparam) (i32.const 0) (local.get $response)
      (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (call $blocking-read (local.get $in) (i64.const {HEADER}) (i32.const 64))
    (if (i32.ne (i32.load (i32.const 72)) (i32.const {HEADER})) (then unreachable))
    (local.set $most (i64.load32_u (i32.const {BASE})))
    (local.set $carry (i32.load offset=4 (i32.const {BASE})))
    (local.set $mode (i32.load offset=12 (i32.const {BASE})))
    (global.set $place (i32.load offset=8 (i32.const {BASE})))
    (if (i32.eq (local.get $mode) (i32.const {Mode.PERMITS}))
      (then
        (i32.store (i32.const 256) (call $room (local.get $out)))
        (call $put (local.get $out) (i32.const 0) (i32.const 3))
        (i32.store (i32.const 260) (call $room (local.get $out)))
        (call $put (local.get $out) (i32.const 256) (i32.const 8))))
    (if (i32.eq (local.get $mode) (i32.const {Mode.BEYOND_PERMIT}))
      (then
        (call $put (local.get $out) (i32.const {BASE})
          (i32.add (call $room (local.get $out)) (i32.const 1)))))
    (if (i32.eq (local.get $mode) (i32.const {Mode.BEYOND_MEMORY}))
      (then
        (i32.store8 (i32.const 0x7fffe) (local.get $carry))
        (drop (call $room (local.get $out)))
        (call $put (local.get $out) (i32.const 0x7fffe) (i32.const 3))))
    (block $end
      (loop $each
        (call $blocking-read (local.get $in) (local.get $most) (i32.const 64))
        (br_if $end (i32.load8_u (i32.const 64)))
        (local.set $at (i32.load (i32.const 68)))
        (local.set $left (i32.load (i32.const 72)))
        (call $intact (local.get $at) (local.get $left))
        (loop $more
          (local.set $piece (call $least (local.get $left) (local.get $carry)))
          (if (i32.eq (local.get $mode) (i32.const {Mode.EMPTY}))
            (then
              (drop (call $room (local.get $out)))
              (call $put (local.get $out) (local.get $at) (i32.const 0))))
          (if (i32.eq (local.get $mode) (i32.const {Mode.BLOCKING}))
            (then
              (call $write-now (local.get $out) (local.get $at) (local.get $piece) (i32.const 64))
              (br_if $end (i32.load8_u (i32.const 64))))
            (else
              (local.set $piece (call $least (local.get $piece) (call $room (local.get $out))))
              (call $put (local.get $out) (local.get $at) (local.get $piece))))
          (local.set $at (i32.add (local.get $at) (local.get $piece)))
          (local.set $left (i32.sub (local.get $left) (local.get $piece)))
          (br_if $more (local.get $left)))
        (br $each)))
    ;; Only an end that is "closed" is an end.
    (if (i32.ne (i32.load8_u (i32.const 68)) (i32.const 1)) (then unreachable))
    (call $read (local.get $in) (i64.const 1) (i32.const 64))
    (if (i32.ne (i32.load8_u (i32.const 64)) (i32.const 1)) (then unreachable))
    (call $drop-output (local.get $out))
    (call $finish (local.get $body) (i32.const 0) (i32.const 0) (i32.const 64)))
"""


@cache
def echo_component(*, direct: bool = False, two_reallocs: bool = False) -> bytes:
    """Return the component.

    `direct` has the fixup module take its table from the shim's instance, not from a bundle. `two_reallocs`
    gives functions other than reads a `realloc` that traps.
    """
    called: dict[str, set[str]] = {}
    for interface, function, _, _ in CALLS.values():
        called.setdefault(f"wasi:{interface}@{VERSION}", set()).add(function)
    hosted = parse_interfaces(called)

    def instance(interface: str) -> str:
        return hosted.instances[f"wasi:{interface}@{VERSION}"]

    def signature(parameters: str, results: str) -> str:
        return (f"(param {parameters}) " if parameters else "") + (f"(result {results})" if results else "")

    names = list(CALLS)
    types = [signature(CALLS[name][2], CALLS[name][3]) for name in names]
    gets = [" ".join(f"(local.get {i})" for i in range(len(CALLS[name][2].split()))) for name in names]
    nl = "\n"
    shim = nl.join(
        f'(func (export "{i}") {kind} {gets[i]} (call_indirect {kind} (i32.const {i})))'
        for i, kind in enumerate(types)
    )
    lowered = nl.join(
        f'(core func $low-{i} (canon lower (func {instance(CALLS[name][0])} "{CALLS[name][1]}") '
        f"(memory $memory) (realloc ${'other' if two_reallocs and 'read' not in name else 'realloc'})))"
        for i, name in enumerate(names)
    )
    drops = nl.join(
        f'(alias export {instance(interface)} "{resource}" (type $type-{name}))'
        f"(core func ${name} (canon resource.drop $type-{name}))"
        for name, (interface, resource) in DROPS.items()
    )
    exports = " ".join(
        [f'(export "{name}" (func $shim "{i}"))' for i, name in enumerate(names)]
        + [f'(export "{name}" (func ${name}))' for name in DROPS]
    )
    imported = nl.join(
        [f'(import "host" "{name}" (func ${name} {kind}))' for name, kind in zip(names, types, strict=True)]
        + [f'(import "host" "{name}" (func ${name} (param i32)))' for name in DROPS]
    )
    table = "shim" if direct else ""
    return bytes(
        wasmtime.wat2wasm(f"""(component $world
{hosted.text}
{drops}
(core module $shim-module (table (export "table") {len(names)} {len(names)} funcref) {shim})
(core instance $shim (instantiate $shim-module))
(core module $main-module {imported} {MAIN})
(core instance $main (instantiate $main-module (with "host" (instance {exports}))))
(alias core export $main "memory" (core memory $memory))
(alias core export $main "realloc" (core func $realloc))
(alias core export $main "trapping-realloc" (core func $other))
{lowered}
(core module $fixup
  (import "{table}" "table" (table {len(names)} funcref))
  {nl.join(f'(import "" "{i}" (func $f{i} {kind}))' for i, kind in enumerate(types))}
  (elem (i32.const 0) func {" ".join(f"$f{i}" for i in range(len(names)))}))
(core instance (instantiate $fixup
  {'(with "shim" (instance $shim))' if direct else ""}
  (with "" (instance
    {"" if direct else '(export "table" (table $shim "table"))'}
    {nl.join(f'(export "{i}" (func $low-{i}))' for i in range(len(names)))}))))
(alias export {instance("http/types")} "incoming-request" (type $handled))
(alias export {instance("http/types")} "response-outparam" (type $answered))
(func $handle (param "request" (own $handled)) (param "response-out" (own $answered))
  (canon lift (core func $main "handle")))
(instance $handler (export "handle" (func $handle)))
(export "{HANDLER}" (instance $handler)))""")
    )
