"""Memories of the guest in WebAssembly text: of a module beside its main one, or of the main one itself."""

import re
from collections.abc import Mapping

MEMORY = """
(memory (export "memory") 40)
(global $next (export "next") (mut i32) (i32.const 65536))
(func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
  (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
  (global.set $next (i32.add (local.get $at) (local.get 3)))
  (local.get $at))
"""
OTHER = """
(memory $other (export "other") 1)
(func $grow-other (export "grow") (param i32) (result i32) (memory.grow $other (local.get 0)))
(func $size-of-other (export "size") (result i32) (memory.size $other))
(func $load-other (export "load") (param i32) (result i32) (i32.load $other (local.get 0)))
(func $fill-other (export "fill") (param i32 i32 i32)
  (memory.fill $other (local.get 0) (local.get 1) (local.get 2)))
"""
IMPORTED_OTHER = """
(import "other" "grow" (func $grow-other (param i32) (result i32)))
(import "other" "size" (func $size-of-other (result i32)))
(import "other" "load" (func $load-other (param i32) (result i32)))
(import "other" "fill" (func $fill-other (param i32 i32 i32)))
"""
IMPORTED_MEMORY = """
(import "memory" "memory" (memory 40)) (import "memory" "next" (global $next (mut i32)))
"""
PADDING = '(data (i32.const 131072) "{}")'.format("\\00" * (1 << 20))
"""Data that does not change the memory, and makes it worth an image of its own."""


def indirect(signatures: Mapping[str, str]) -> tuple[str, str]:
    """Return a module whose functions call those of a table, and one that fills the table.

    So a module can import functions that use its own memory.
    """
    stubs, entries = [], []
    for at, (name, signature) in enumerate(signatures.items()):
        count = len(re.findall("i32|i64", signature.partition("(result")[0]))
        arguments = " ".join(f"(local.get {index})" for index in range(count))
        stubs.append(
            f'(func (export "{name}") {signature} {arguments} (call_indirect {signature} (i32.const {at})))'
        )
        entries.append(f'(import "host" "{name}" (func {signature}))')
    table, fill = len(signatures), " ".join(map(str, range(len(signatures))))
    return (
        f'(core module $stubs (table (export "table") {table} {table} funcref) {" ".join(stubs)})',
        f'(core module $fill (import "stubs" "table" (table {table} funcref)) {" ".join(entries)}'
        f" (elem (i32.const 0) func {fill}))",
    )
