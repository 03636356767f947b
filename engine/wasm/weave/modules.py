"""The core modules that are generated around the WASI library, as text.

- The memory module owns the library's memory, so that host functions can be lowered before the library
  exists.
- The thunks select the guest's `realloc` before they call the library, if the guest has several.
- The access module reaches the guest's memory. It fills the first slots of the library's table, which the
  library calls, because the guest's memory exists only after the library.
"""

from collections.abc import Sequence

from engine.wasm.capi.ascii_packing import BLOCK_BYTES, BLOCK_CHARS, wat_functions
from engine.wasm_binary import CoreSignature

MAX_LIBRARY_PAGES = 64
"""Maximum pages of the library's memory, of 64 KiB."""
FIRST_SLOT = 1
_REALLOC = "(param i32 i32 i32 i32) (result i32)"


def memory_module(pages: int) -> str:
    """Return the module with the library's memory, of `pages` at first, and the results' `realloc`.

    A result of the host is written to the buffer that the library has set, if it fits, or else to new pages.
    """
    return f"""(module
  (memory (export "memory") {pages} {MAX_LIBRARY_PAGES})
  (global $buffer (mut i32) (i32.const 0))
  (global $size (mut i32) (i32.const 0))
  (global (export "realloc-index") (mut i32) (i32.const 0))
  (func (export "set_buffer") (param i32 i32)
    (global.set $buffer (local.get 0)) (global.set $size (local.get 1)))
  (func (export "realloc") {_REALLOC}
    (local $page i32)
    (if (i32.le_u (local.get 3) (global.get $size)) (then (return (global.get $buffer))))
    (local.set $page
      (memory.grow (i32.add (i32.shr_u (local.get 3) (i32.const 16)) (i32.const 1))))
    (if (i32.eq (local.get $page) (i32.const -1)) (then unreachable))
    (i32.shl (local.get $page) (i32.const 16))))"""


def thunk_module(thunks: Sequence[tuple[str, int, CoreSignature]]) -> str:
    """Return a module with a function for each library function and index of a `realloc`.

    It exports each by its position in `thunks`, and imports the library's by the same names.
    """
    lines = []
    for i, (_, realloc, signature) in enumerate(thunks):
        arguments = " ".join(f"(local.get {n})" for n in range(len(signature.parameters)))
        lines.append(
            f'(func (export "{i}") {signature.text()} (global.set $index (i32.const {realloc}))'
            f" (call $f{i} {arguments}))"
        )
    imports = [
        f'(import "library" "{i}" (func $f{i} {signature.text()}))'
        for i, (_, _, signature) in enumerate(thunks)
    ]
    index = '(import "memory" "realloc-index" (global $index (mut i32)))'
    return "\n".join(["(module", *imports, index, *lines, ")"])


def unavailable_module(functions: Sequence[tuple[str, CoreSignature]]) -> str:
    """Return a module of functions that end the guest, with an error that has the name of the function."""
    bodies = []
    for i, (name, signature) in enumerate(functions):
        raw = name.encode()
        words = [int.from_bytes(raw[at : at + 8], "little", signed=False) for at in range(0, len(raw), 8)]
        calls = " ".join(f"(call $part (i64.const {word}))" for word in words)
        bodies.append(f'(func (export "{i}") {signature.text()} {calls} (call $end) unreachable)')
    return "\n".join(
        [
            "(module",
            '(import "library" "unavailable" (func $part (param i64)))',
            '(import "library" "unavailable_end" (func $end))',
            *bodies,
            ")",
        ]
    )


# Check whether all bytes are ASCII. A range beyond the end of memory traps.
_ASCII = """
  (func $ascii (param $at i32) (param $size i32) (result i32)
    (local $end i32)
    (local.set $end (i32.add (local.get $at) (local.get $size)))
    (block $rest
      (loop $each
        (br_if $rest (i32.gt_u (i32.const 32) (i32.sub (local.get $end) (local.get $at))))
        (if (i64.ne (i64.const 0) (i64.and (i64.const 0x8080808080808080)
              (i64.or
                (i64.or
                  (i64.load $guest align=1 (local.get $at))
                  (i64.load $guest offset=8 align=1 (local.get $at)))
                (i64.or
                  (i64.load $guest offset=16 align=1 (local.get $at))
                  (i64.load $guest offset=24 align=1 (local.get $at))))))
          (then (return (i32.const 0))))
        (local.set $at (i32.add (local.get $at) (i32.const 32)))
        (br $each)))
    (loop $each
      (if (i32.eq (local.get $at) (local.get $end)) (then (return (i32.const 1))))
      (if (i32.lt_s (i32.load8_s $guest (local.get $at)) (i32.const 0)) (then (return (i32.const 0))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $each))
    unreachable)"""

# The slots of the library's table, in order. `pack` and `unpack` of the guest's bytes must not touch bytes
# beyond them, so an incomplete block goes through the library's memory: 64 bytes behind the packed ones.
_SLOTS = (
    "load8", "load32", "store8", "store32", "store64", "store16", "copy_in", "copy_out", "allocate", "handle",
    "pages", "pack_in", "unpack_out", "ascii", "pack_own", "unpack_own",
)  # fmt: skip


def access_module(reallocs: int, memories: Sequence[str], *, addressed: bool) -> str:
    """Return the access module of a guest with this number of `realloc` functions.

    `memories` are the index types of the guest's memories. `addressed` is whether its calls address one;
    otherwise their addresses are those of a memory of no pages. The module imports from "guest" the addressed
    `memory`, each `memory-<i>`, `realloc-<i>` and `handle`, and from "library" the memory and the table.
    """
    arguments = "(i32.const 0) (i32.const 0) (local.get 0) (local.get 1)"
    allocate = "unreachable"
    for i in range(reallocs):
        index = f"(i32.eq (global.get $index) (i32.const {i}))"
        call = f"(call $realloc-{i} {arguments})"
        allocate = f"(if (result i32) {index} (then {call}) (else {allocate}))" if i else call
    pages = "(memory.size $own)"
    for i, index_type in enumerate(memories):
        size = f"(memory.size $memory-{i})"
        pages = f"(i32.add {pages} {size if index_type == 'i32' else f'(i32.wrap_i64 {size})'})"
    imports = [f'(import "guest" "realloc-{i}" (func $realloc-{i} {_REALLOC}))' for i in range(reallocs)]
    imports += [
        f'(import "guest" "memory-{i}" (memory $memory-{i} {index_type} 0))'
        for i, index_type in enumerate(memories)
    ]
    guest = '(import "guest" "memory" (memory $guest 0))' if addressed else ""
    return f"""(module
  {" ".join(imports)} {guest}
  (import "guest" "handle" (func $handle (param i32 i32)))
  (import "memory" "memory" (memory $own 0))
  (import "memory" "realloc-index" (global $index (mut i32)))
  (import "library" "__indirect_function_table" (table $table 0 funcref))
  {"" if addressed else "(memory $guest 0 0)"}
  (func $load8 (param i32) (result i32) (i32.load8_u $guest (local.get 0)))
  (func $load32 (param i32) (result i32) (i32.load $guest align=1 (local.get 0)))
  (func $store8 (param i32 i32) (i32.store8 $guest (local.get 0) (local.get 1)))
  (func $store16 (param i32 i32) (i32.store16 $guest align=1 (local.get 0) (local.get 1)))
  (func $store32 (param i32 i32) (i32.store $guest align=1 (local.get 0) (local.get 1)))
  (func $store64 (param i32 i64) (i64.store $guest align=1 (local.get 0) (local.get 1)))
  (func $copy_in (param i32 i32 i32)
    (memory.copy $own $guest (local.get 0) (local.get 1) (local.get 2)))
  (func $copy_out (param i32 i32 i32)
    (memory.copy $guest $own (local.get 0) (local.get 1) (local.get 2)))
  (func $allocate (param i32 i32) (result i32) {allocate})
  (func $pages (result i32) {pages})
  {_ASCII}
  {wat_functions("-guest", "$guest", "$own")}
  {wat_functions("-own", "$own", "$own")}
  (func $pack_own (param i32 i32 i32) (result i32)
    (call $pack-own (local.get 0) (local.get 1) (local.get 2)))
  (func $unpack_own (param i32 i32 i32)
    (drop (call $unpack-own (local.get 0) (local.get 1) (local.get 2))))
  (func $pack_in (param $at i32) (param $to i32) (param $size i32) (result i32)
    (local $rest i32)
    (local.set $rest (i32.rem_u (local.get $size) (i32.const {BLOCK_BYTES})))
    (local.set $size (i32.sub (local.get $size) (local.get $rest)))
    (if (local.get $size)
      (then (local.set $to (call $pack-guest (local.get $at) (local.get $to) (local.get $size)))))
    (if (local.get $rest)
      (then
        (memory.copy $own $guest
          (i32.add (local.get $to) (i32.const {BLOCK_CHARS}))
          (i32.add (local.get $at) (local.get $size)) (local.get $rest))
        (local.set $to
          (call $pack-own
            (i32.add (local.get $to) (i32.const {BLOCK_CHARS})) (local.get $to) (local.get $rest)))))
    (local.get $to))
  (func $unpack_out (param $from i32) (param $to i32) (param $size i32)
    (local $rest i32)
    (local.set $rest (i32.rem_u (local.get $size) (i32.const {BLOCK_BYTES})))
    (local.set $size (i32.sub (local.get $size) (local.get $rest)))
    (if (local.get $size)
      (then
        (local.set $to (call $unpack-guest (local.get $from) (local.get $to) (local.get $size)))
        (local.set $from
          (i32.add (local.get $from)
            (i32.mul (i32.div_u (local.get $size) (i32.const {BLOCK_BYTES})) (i32.const {BLOCK_CHARS}))))))
    (if (local.get $rest)
      (then
        (call $unpack_own
          (local.get $from) (i32.add (local.get $from) (i32.const {BLOCK_CHARS})) (local.get $rest))
        (memory.copy $guest $own
          (local.get $to) (i32.add (local.get $from) (i32.const {BLOCK_CHARS})) (local.get $rest)))))
  (elem (table $table) (i32.const {FIRST_SLOT}) func {" ".join(f"${each}" for each in _SLOTS)}))"""
