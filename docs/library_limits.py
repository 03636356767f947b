"""Limits of the WASI library, read from its sources in `engine/wasm/guest_side/`."""

import re
from pathlib import Path

from engine.wasm.binary.reader import PAGE_BYTES
from engine.wasm.weave.modules import MAX_LIBRARY_PAGES

_FOLDER = Path(__file__).parents[1] / "engine" / "wasm" / "guest_side"


def _constant(file: str, name: str) -> int:
    source = (_FOLDER / file).read_text("utf-8")
    match = re.search(rf"^const {name}: \w+ = ([0-9_]+)(?: << ([0-9]+))?;$", source, re.MULTILINE)
    assert match is not None, f"{file} has no constant {name}"
    return int(match[1]) << int(match[2] or 0)


FIELDS = _constant("fields.rs", "MAX_BYTES")
HELD_FIELDS = _constant("fields.rs", "MAX_HELD_BYTES")
HANDLES = _constant("handles.rs", "MAX_HANDLES")
POLLABLES = _constant("poll.rs", "MAX_POLLABLES")
UNSENT = _constant("requests.rs", "MAX_UNSENT")
MEMORY = MAX_LIBRARY_PAGES * PAGE_BYTES
