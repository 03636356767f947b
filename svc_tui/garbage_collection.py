"""Garbage collection of a process that starts, works and exits."""

import atexit
import gc

_THRESHOLD = 200_000
"""Objects that are created between two collections, until a server sets its own threshold."""


def relax_garbage_collection() -> None:
    """Collect rarely during the start, and not at exit.

    Imports create many objects and little garbage. Collections would take a fifth of a start and an exit.
    """
    gc.set_threshold(_THRESHOLD)
    atexit.register(gc.freeze)
