"""The bytes that `bench-body` moves: a repeated block of 64 KiB of binary data."""

BLOCK_SIZE = 65_536


def block() -> bytes:
    """Return the block, made by the guests' linear congruential generator (Numerical Recipes)."""
    state, out = 1, bytearray(BLOCK_SIZE)
    for position in range(BLOCK_SIZE):
        state = (state * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
        out[position] = state >> 24
    return bytes(out)
