"""Budget for analyzing the types of a component, which a few hundred bytes can make huge."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_TYPE_PARTS = 10_000
"""Maximum parts of the types of a component's imports, each counted as often as it occurs. js uses 600."""
_parts_left: ContextVar[list[int] | None] = ContextVar("parts_left", default=None)


@contextmanager
def bounded_types() -> Iterator[None]:
    """Bound the types that are analyzed meanwhile to `MAX_TYPE_PARTS` parts."""
    token = _parts_left.set([MAX_TYPE_PARTS])
    try:
        yield
    finally:
        _parts_left.reset(token)


def count_parts(count: int = 1) -> None:
    """Count parts of types within `bounded_types`. Raises TypeError for too many."""
    left = _parts_left.get()
    if left is not None:
        left[0] -= count
        if left[0] < 0:
            raise TypeError(f"the types of its imports have more than {MAX_TYPE_PARTS} parts")
