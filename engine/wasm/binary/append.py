"""Sections appended to a component: their bytes and the indices of their items.

Section numbers: the component model's `Binary.md`.
"""

from collections.abc import Sequence

from wasmtime import wat2wasm

from engine.wasm.binary.reader import ComponentOutline
from engine.wasm_binary import section, vector

CORE_MODULE, CORE_INSTANCE, ALIAS, TYPE, CANONICAL, IMPORT, EXPORT = 1, 2, 6, 7, 8, 10, 11


class SectionAppender:
    """Builds the bytes that follow a component, in `out`."""

    def __init__(self, outline: ComponentOutline) -> None:
        self._outline = outline
        self._added: dict[str, int] = {}
        self.out = bytearray()

    def add(self, kind: int, items: Sequence[bytes], space: str) -> int:
        """Append a section whose items extend one index space; return the index of the first item."""
        first = self._allocate(space, len(items))
        self.out += section(kind, vector(items))
        return first

    def core_module(self, text: str) -> int:
        """Append a core module given as text; return its index. Raises `WasmtimeError`."""
        first = self._allocate("core-module", 1)
        self.out += section(CORE_MODULE, bytes(wat2wasm(text)))
        return first

    def _allocate(self, space: str, count: int) -> int:
        """Extend an index space; return the first new index."""
        grown = self._added.get(space, 0)
        self._added[space] = grown + count
        return self._outline.size_of(space) + grown
