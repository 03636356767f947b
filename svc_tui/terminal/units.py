"""Formatting of counts, sizes and durations."""

_SIZE_UNITS = ("KiB", "MiB", "GiB", "TiB")


def plural(count: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size(count: int) -> str:
    """Return a number of bytes as text: `812 B`, `3.4 KiB`, `12 MiB`."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(_SIZE_UNITS))
    amount = count / (1 << 10 * power)
    return f"{amount:.{1 if amount < 10 else 0}f} {_SIZE_UNITS[power - 1]}"


def duration(nanoseconds: int) -> str:
    """Return a duration as text: `0.8 ms`, `12 ms`, `3.4 s`."""
    milliseconds = nanoseconds / 1e6
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
