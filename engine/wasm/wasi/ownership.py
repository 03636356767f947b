"""Parents and children among resources (source: wasi:http 0.2.12, `types`).

A child ("headers" of a message, the stream of a body) must be dropped before its parent is dropped or given
away; where it is not, the guest traps.
"""

from engine.wasm.execution.run_state import Trap


class ParentResource:
    """A resource that counts the `children` that a guest still holds."""

    __slots__ = ("children",)

    def __init__(self) -> None:
        self.children = 0

    def check_childless(self, done: str) -> None:
        """Trap when there are children; `done` says what was done to this ("a body was dropped before …")."""
        if self.children:
            raise Trap(done)


class ChildResource:
    """A resource that may belong to a `parent`."""

    __slots__ = ("parent",)

    def __init__(self, parent: ParentResource | None) -> None:
        self.parent = parent
        if parent is not None:
            parent.children += 1

    def detach(self) -> None:
        """Belong to nobody any more: dropped, or given away."""
        if self.parent is not None:
            self.parent.children -= 1
            self.parent = None
