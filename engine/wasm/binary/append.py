"""Sections that are appended to a component: their bytes, and the indices that what they define has.

Owns how long the index spaces become; what is appended, `memory_probe.py` and `overlay.py` know. The numbers
of sections are those of the component model's `Binary.md`.
"""

from collections.abc import Sequence

from wasmtime import wat2wasm

from engine.wasm.binary.reader import ComponentOutline
from engine.wasm.binary.writer import section, vector

CORE_MODULE, CORE_INSTANCE, ALIAS, TYPE, CANONICAL, IMPORT, EXPORT = 1, 2, 6, 7, 8, 10, 11


class SectionAppender:
    """What comes after a component that was scanned; `out` are its bytes."""

    def __init__(self, outline: ComponentOutline) -> None:
        self._outline = outline
        self._added: dict[str, int] = {}
        self.out = bytearray()

    def add(self, kind: int, items: Sequence[bytes], space: str) -> int:
        """Append a section whose items go to one index space; return the index of the first."""
        first = self._allocate(space, len(items))
        self.out += section(kind, vector(items))
        return first

    def core_module(self, text: str) -> int:
        """Append a core module, given as text; return its index. Raises `WasmtimeError`."""
        first = self._allocate("core-module", 1)
        self.out += section(CORE_MODULE, bytes(wat2wasm(text)))
        return first

    def _allocate(self, space: str, count: int) -> int:
        """Let an index space grow; return the first index that is new."""
        grown = self._added.get(space, 0)
        self._added[space] = grown + count
        return self._outline.size_of(space) + grown
