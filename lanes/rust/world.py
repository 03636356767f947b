"""Assembles the guest library's `world.wat` into `world.bin`: `python -m lanes.rust.world`.

For us only: a test fails when the two differ. The lane never runs this.
"""

from pathlib import Path

import wasmtime

SOURCE = Path(__file__).with_name("guest") / "src" / "abi" / "world.wat"
BINARY = SOURCE.with_suffix(".bin")


def assembled() -> bytes:
    """Return what `world.bin` should be."""
    return bytes(wasmtime.wat2wasm(SOURCE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    BINARY.write_bytes(assembled())
