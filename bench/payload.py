"""The bytes that `bench-body` moves: a block of 64 KiB that is no text, repeated."""

BLOCK_SIZE = 65_536


def block() -> bytes:
    """Return the block, of a linear congruential generator (Numerical Recipes), as the guests have it."""
    state, out = 1, bytearray(BLOCK_SIZE)
    for position in range(BLOCK_SIZE):
        state = (state * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
        out[position] = state >> 24
    return bytes(out)
