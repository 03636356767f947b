"""The two core modules that the overlay appends, written as text.

The first is the memory that calls of its own work in; the second has a function for each slot. Both have
no page of it until bytes come that are not ASCII, or are read. Bytes are packed and unpacked on their way
out of the guest's memory and into it. Owns what the functions do; the format in which bytes cross is
`packing.py`'s.
"""

from collections.abc import Sequence

from engine.wasm.binary.fast_streams.analysis import TableSlot
from engine.wasm.capi.ascii_packing import BLOCK_BYTES, BLOCK_CHARS, MAX_PACKED_BYTES, wat_functions

FAST_STREAMS = "svc:bytes/streams"
"""What the overlay imports."""
PACKED_SUFFIX = "-packed"
"""What the name of the host's function for packed bytes ends with."""

# Places in the memory that calls work in: results, the last bytes, which fill no block, and bytes packed.
_RESULTS, _TAIL, _PACKED = 0, 64, 128
_PAGES = 2

SCRATCH_MODULE = f"""(module
  (memory (export "memory") 0 {_PAGES})
  (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const {_PACKED})))"""
"""What the host returns for reads goes to one place. It fits: MOST bytes do, packed."""

_WRITE = "(param i32 i32 i32 i32)"
_WRITE_PACKED = "(param i32 i32 i32 i32 i32)"
_READ = "(param i32 i64 i32)"
_REALLOC = "(param i32 i32 i32 i32) (result i32)"

# Whether all bytes are ASCII. A range that ends beyond the memory traps, here or at the host's check.
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
  ;; The outcome of a call, as the canonical ABI has a result<_, stream-error>; returns whether it failed.
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
  ;; Packs bytes of the guest; returns how many characters there are.
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
  ;; Unpacks what is there to a place of the guest's.
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
    # More than MOST is more than was ever permitted: the host says so.
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
    """Return the names of the host functions that stand in for a method, without their streams."""
    return (call, call + PACKED_SUFFIX) if "write" in call else (call,)


def patch_module(slots: Sequence[TableSlot]) -> str:
    """Return the text of the module that fills these slots.

    It imports everything from one instance, "host": `table`, `guest` and `scratch` (memories),
    `realloc-<index>`, and each of the `twins` as `<streams>-<twin>`.
    """
    imports, bodies, elements = {}, [], []
    for slot in slots:
        name = f"{slot.streams}-{slot.call}"
        for twin in string_variants(slot.call):
            packed = twin.endswith(PACKED_SUFFIX)
            imports[f"{slot.streams}-{twin}"] = (
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
            *(_ASCII, _COMMON, *bodies, *elements),
            ")",
        ]
    )
