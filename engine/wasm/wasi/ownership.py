"""Parent and child resources (source: wasi:http 0.2.12, `types`).

A guest must drop a child (the headers of a message, the stream of a body) before it drops or passes on the
parent. Otherwise it traps.
"""

from engine.wasm.execution.run_state import Trap


class ParentResource:
    """A resource that counts the `children` held by the guest."""

    __slots__ = ("children",)

    def __init__(self) -> None:
        self.children = 0

    def check_childless(self, done: str) -> None:
        """Raise Trap with the text `done` ("a body was dropped before ...") if children exist."""
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
        """Detach from the parent, because this was dropped or passed on."""
        if self.parent is not None:
            self.parent.children -= 1
            self.parent = None
