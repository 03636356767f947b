"""The memory budget of a service."""

from collections.abc import Callable

from engine.control.schema import StrictModel


class MemoryState(StrictModel):
    """The memory budget of all processes of a service, and what they have resident, in bytes."""

    budget: int
    used: int


MemorySource = Callable[[], MemoryState | None]
"""Returns the state now; `None` in development."""


def no_memory_state() -> None:
    """Return nothing: the memory budget is that of a service."""
