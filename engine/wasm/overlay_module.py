"""The two core modules that the overlay appends, written as text.

The first is the memory that calls of its own work in; the second has a function for each slot. Both have
no page of it until bytes come that are not ASCII, or are read. Owns what the functions do; the format in
which bytes cross is `packing.py`'s.
"""

from collections.abc import Sequence

from engine.wasm.overlay_shape import Slot
from engine.wasm.packing import FUNCTIONS, MOST, PACKED, PAGES, RAW, RESULTS

INTERFACE = "svc:bytes/streams"
"""What the overlay imports."""
PACKED_TWIN = "-packed"
"""What the name of the host's function for packed bytes ends with."""

SCRATCH = f"""(module
  (memory (export "memory") 0 {PAGES})
  (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const {PACKED})))"""
"""What the host returns for reads goes to one place. It fits: see `packing.py`."""

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
        (if (i32.eq (memory.grow $scratch (i32.const {PAGES})) (i32.const -1)) (then unreachable)))))
  ;; The outcome of a call, as the canonical ABI has a result<_, stream-error>; returns whether it failed.
  (func $outcome (param $results i32) (result i32)
    (i32.store8 $guest (local.get $results) (i32.load8_u $scratch offset={RESULTS} (i32.const 0)))
    (if (i32.eqz (i32.load8_u $scratch offset={RESULTS} (i32.const 0))) (then (return (i32.const 0))))
    (i32.store8 $guest offset=4 (local.get $results)
      (i32.load8_u $scratch offset={RESULTS + 4} (i32.const 0)))
    (i32.store $guest offset=8 (local.get $results)
      (i32.load $scratch offset={RESULTS + 8} (i32.const 0)))
    (i32.const 1))"""


def _write(number: int, name: str) -> str:
    # More than MOST is more than was ever permitted: the host says so.
    return f"""
  (func $slot-{number} (param $self i32) (param $at i32) (param $size i32) (param $results i32)
    (local $packed i32)
    (if (i32.le_u (local.get $size) (i32.const {MOST}))
      (then
        (if (call $ascii (local.get $at) (local.get $size))
          (then
            (call ${name} (local.get $self) (local.get $at) (local.get $size) (local.get $results))
            (return)))
        (call $begin)
        (memory.copy $scratch $guest (i32.const {RAW}) (local.get $at) (local.get $size))
        (local.set $packed (call $pack (local.get $size))))
      (else (call $begin)))
    (call ${name}{PACKED_TWIN}
      (local.get $self) (i32.const {PACKED}) (local.get $packed) (local.get $size) (i32.const {RESULTS}))
    (drop (call $outcome (local.get $results))))"""


def _read(number: int, name: str, realloc: int) -> str:
    return f"""
  (func $slot-{number} (param $self i32) (param $most i64) (param $results i32)
    (local $count i32) (local $from i32) (local $to i32)
    (call $begin)
    (call ${name} (local.get $self) (local.get $most) (i32.const {RESULTS}))
    (if (call $outcome (local.get $results)) (then (return)))
    (local.set $count (i32.load $scratch offset={RESULTS + 12} (i32.const 0)))
    (if (i32.eq (local.get $count) (i32.load $scratch offset={RESULTS + 8} (i32.const 0)))
      (then (local.set $from (i32.const {PACKED})))
      (else
        (call $unpack (local.get $count))
        (local.set $from (i32.const {RAW}))))
    (local.set $to
      (call $realloc-{realloc} (i32.const 0) (i32.const 0) (i32.const 1) (local.get $count)))
    (memory.copy $guest $scratch (local.get $to) (local.get $from) (local.get $count))
    (i32.store $guest offset=4 (local.get $results) (local.get $to))
    (i32.store $guest offset=8 (local.get $results) (local.get $count)))"""


def twins(call: str) -> tuple[str, ...]:
    """Return the names of the host functions that stand in for a method, without their streams."""
    return (call, call + PACKED_TWIN) if "write" in call else (call,)


def module(slots: Sequence[Slot]) -> str:
    """Return the text of the module that fills these slots.

    It imports everything from one instance, "host": `table`, `guest` and `scratch` (memories),
    `realloc-<index>`, and each of the `twins` as `<streams>-<twin>`.
    """
    imports, functions, elements = {}, [], []
    for slot in slots:
        name = f"{slot.streams}-{slot.call}"
        for twin in twins(slot.call):
            packed = twin.endswith(PACKED_TWIN)
            imports[f"{slot.streams}-{twin}"] = (
                _WRITE_PACKED if packed else _READ if slot.realloc is not None else _WRITE
            )
        if slot.realloc is None:
            functions.append(_write(slot.number, name))
        else:
            imports[f"realloc-{slot.realloc}"] = _REALLOC
            functions.append(_read(slot.number, name, slot.realloc))
        elements.append(f"  (elem (table $table) (i32.const {slot.number}) func $slot-{slot.number})")
    imported = [f'  (import "host" "{name}" (func ${name} {kind}))' for name, kind in imports.items()]
    return "\n".join(
        [
            "(module",
            *imported,
            '  (import "host" "table" (table $table 0 funcref))',
            f'  (import "host" "scratch" (memory $scratch 0 {PAGES}))',
            '  (import "host" "guest" (memory $guest 0))',
            *(FUNCTIONS, _ASCII, _COMMON, *functions, *elements),
            ")",
        ]
    )
