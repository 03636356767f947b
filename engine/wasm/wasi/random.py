"""`wasi:random@0.2` (source: wasi:random 0.2.12, `package.wit`), from the system's generator."""

import os

from engine.wasm.execution.run_state import RunState, Trap
from engine.wasm.wasi.registry import host

MAX_RANDOM_BYTES = 65536


@host("wasi:random/random", "get-random-bytes")
@host("wasi:random/insecure", "get-insecure-random-bytes")
def random_bytes(run: RunState, count: int) -> bytes:
    """Return `count` random bytes. Raises Trap above 64 KiB."""
    if count > MAX_RANDOM_BYTES:
        raise Trap(f"get-random-bytes of {count} bytes; at most {MAX_RANDOM_BYTES} are allowed")
    return os.urandom(count)


@host("wasi:random/random", "get-random-u64")
@host("wasi:random/insecure", "get-insecure-random-u64")
def random_u64(run: RunState) -> int:
    """Return a random 64-bit number."""
    return int.from_bytes(os.urandom(8), "little")


@host("wasi:random/insecure-seed", "insecure-seed")
def insecure_seed(run: RunState) -> tuple[int, int]:
    """Return 128 bits to seed hash maps with."""
    return random_u64(run), random_u64(run)
