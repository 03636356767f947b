"""Temporary space that the open grids of a project share."""

import threading

MAX_BYTES = 1 << 30
"""Maximum bytes of the temporary files of a project's grids."""


class TemporarySpace:
    """The temporary bytes of each grid. Its threads use it."""

    def __init__(self) -> None:
        self._sizes: dict[object, int] = {}
        self._lock = threading.Lock()

    def set(self, grid: object, size: int) -> bool:
        """Count the bytes of a grid instead of its earlier ones; return whether all fit together."""
        with self._lock:
            self._sizes[grid] = size
            return sum(self._sizes.values()) <= MAX_BYTES

    def remove(self, grid: object) -> None:
        """Remove the bytes of a closed grid."""
        with self._lock:
            self._sizes.pop(grid, None)
