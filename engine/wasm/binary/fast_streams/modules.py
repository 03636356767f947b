"""The two core modules appended for fast streams, written as text.

The first has the scratch memory, the second a function for each table slot. The scratch memory has no pages
until bytes are read, or written that are not ASCII. Bytes are packed and unpacked (`capi/ascii_packing.py`)
when they leave and enter the guest's memory.
"""

from collections.abc import Sequence

from engine.wasm.binary.fast_streams.analysis import TableSlot
from engine.wasm.capi.ascii_packing import BLOCK_BYTES, BLOCK_CHARS, MAX_PACKED_BYTES, wat_functions

FAST_STREAMS = "svc:bytes/streams"
"""The imported interface."""
PACKED_SUFFIX = "-packed"
"""Name suffix of host functions for packed bytes."""

# Addresses in the scratch memory: results, trailing bytes of an incomplete block, packed bytes.
_RESULTS, _TAIL, _PACKED = 0, 64, 128
_PAGES = 2

SCRATCH_MODULE = f"""(module
  (memory (export "memory") 0 {_PAGES})
  (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const {_PACKED})))"""
"""The host's result of a read always goes to one address. It fits: `MAX_PACKED_BYTES`, packed, do."""

_WRITE = "(param i32 i32 i32 i32)"
_WRITE_PACKED = "(param i32 i32 i32 i32 i32)"
_READ = "(param i32 i64 i32)"
_REALLOC = "(param i32 i32 i32 i32) (result i32)"

# Check whether all bytes are ASCII. A range beyond the end of memory traps, here or in the host.
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

_COMMON = f"""
  (func $begin
    (if (i32.eqz (memory.size $scratch))
      (then
        (if (i32.eq (memory.grow $scratch (i32.const {_PAGES})) (i32.const -1)) (then unreachable)))))
  ;; Copies the result of a call, a result<_, stream-error> in the canonical ABI; returns whether it failed.
  (func $outcome (param $results i32) (result i32)
    (i32.store8 $guest (local.get $results) (i32.load8_u $scratch offset={_RESULTS} (i32.const 0)))
    (if (i32.eqz (i32.load8_u $scratch offset={_RESULTS} (i32.const 0))) (then (return (i32.const 0))))
    (i32.store8 $guest offset=4 (local.get $results)
      (i32.load8_u $scratch offset={_RESULTS + 4} (i32.const 0)))
    (i32.store $guest offset=8 (local.get $results)
      (i32.load $scratch offset={_RESULTS + 8} (i32.const 0)))
    (i32.const 1))
  {wat_functions("-blocks", "$guest", "$scratch")}
  {wat_functions("-rest", "$scratch", "$scratch")}
  ;; Packs bytes of the guest; returns the number of characters.
  (func $pack (param $at i32) (param $size i32) (result i32)
    (local $rest i32) (local $to i32)
    (local.set $to (i32.const {_PACKED}))
    (local.set $rest (i32.rem_u (local.get $size) (i32.const {BLOCK_BYTES})))
    (local.set $size (i32.sub (local.get $size) (local.get $rest)))
    (if (local.get $size)
      (then (local.set $to (call $pack-blocks (local.get $at) (local.get $to) (local.get $size)))))
    (if (local.get $rest)
      (then
        (memory.copy $scratch $guest
          (i32.const {_TAIL}) (i32.add (local.get $at) (local.get $size)) (local.get $rest))
        (local.set $to (call $pack-rest (i32.const {_TAIL}) (local.get $to) (local.get $rest)))))
    (i32.sub (local.get $to) (i32.const {_PACKED})))
  ;; Unpacks the packed bytes to an address of the guest.
  (func $unpack (param $to i32) (param $count i32)
    (local $rest i32)
    (local.set $rest (i32.rem_u (local.get $count) (i32.const {BLOCK_BYTES})))
    (local.set $count (i32.sub (local.get $count) (local.get $rest)))
    (if (local.get $count)
      (then
        (local.set $to (call $unpack-blocks (i32.const {_PACKED}) (local.get $to) (local.get $count)))))
    (if (local.get $rest)
      (then
        (drop
          (call $unpack-rest
            (i32.add (i32.const {_PACKED})
              (i32.mul (i32.div_u (local.get $count) (i32.const {BLOCK_BYTES})) (i32.const {BLOCK_CHARS})))
            (i32.const {_TAIL})
            (local.get $rest)))
        (memory.copy $guest $scratch (local.get $to) (i32.const {_TAIL}) (local.get $rest)))))"""


def _write(number: int, name: str) -> str:
    # The host never permits more than MAX_PACKED_BYTES, so it traps on a larger write.
    return f"""
  (func $slot-{number} (param $self i32) (param $at i32) (param $size i32) (param $results i32)
    (local $packed i32)
    (if (i32.le_u (local.get $size) (i32.const {MAX_PACKED_BYTES}))
      (then
        (if (call $ascii (local.get $at) (local.get $size))
          (then
            (call ${name} (local.get $self) (local.get $at) (local.get $size) (local.get $results))
            (return)))
        (call $begin)
        (local.set $packed (call $pack (local.get $at) (local.get $size))))
      (else (call $begin)))
    (call ${name}{PACKED_SUFFIX}
      (local.get $self) (i32.const {_PACKED}) (local.get $packed) (local.get $size) (i32.const {_RESULTS}))
    (drop (call $outcome (local.get $results))))"""


def _read(number: int, name: str, realloc: int) -> str:
    return f"""
  (func $slot-{number} (param $self i32) (param $most i64) (param $results i32)
    (local $count i32) (local $to i32)
    (call $begin)
    (call ${name} (local.get $self) (local.get $most) (i32.const {_RESULTS}))
    (if (call $outcome (local.get $results)) (then (return)))
    (local.set $count (i32.load $scratch offset={_RESULTS + 12} (i32.const 0)))
    (local.set $to
      (call $realloc-{realloc} (i32.const 0) (i32.const 0) (i32.const 1) (local.get $count)))
    (if (i32.eq (local.get $count) (i32.load $scratch offset={_RESULTS + 8} (i32.const 0)))
      (then (memory.copy $guest $scratch (local.get $to) (i32.const {_PACKED}) (local.get $count)))
      (else (call $unpack (local.get $to) (local.get $count))))
    (i32.store $guest offset=4 (local.get $results) (local.get $to))
    (i32.store $guest offset=8 (local.get $results) (local.get $count)))"""


def string_variants(call: str) -> tuple[str, ...]:
    """Return the names of the host functions that replace a method."""
    return (call, call + PACKED_SUFFIX) if "write" in call else (call,)


def patch_module(slots: Sequence[TableSlot]) -> str:
    """Return the text of the module that fills these slots.

    It imports everything from one instance, "host": `table`, `guest` and `scratch` (memories),
    `realloc-<index>`, and each of the `string_variants` as `<streams>-<variant>`.
    """
    imports, bodies, elements = {}, [], []
    for slot in slots:
        name = f"{slot.streams}-{slot.call}"
        for variant in string_variants(slot.call):
            packed = variant.endswith(PACKED_SUFFIX)
            imports[f"{slot.streams}-{variant}"] = (
                _WRITE_PACKED if packed else _READ if slot.realloc is not None else _WRITE
            )
        if slot.realloc is None:
            bodies.append(_write(slot.number, name))
        else:
            imports[f"realloc-{slot.realloc}"] = _REALLOC
            bodies.append(_read(slot.number, name, slot.realloc))
        elements.append(f"  (elem (table $table) (i32.const {slot.number}) func $slot-{slot.number})")
    imported = [f'  (import "host" "{name}" (func ${name} {kind}))' for name, kind in imports.items()]
    return "\n".join(
        [
            "(module",
            *imported,
            '  (import "host" "table" (table $table 0 funcref))',
            f'  (import "host" "scratch" (memory $scratch 0 {_PAGES}))',
            '  (import "host" "guest" (memory $guest 0))',
            _ASCII,
            _COMMON,
            *bodies,
            *elements,
            ")",
        ]
    )
