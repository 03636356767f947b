"""Protocol for questions to the other nodes of a fleet. The fleet implements it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from engine.errors import SvcError

Document = Mapping[str, Any]
"""A JSON object."""
Answer = Callable[[str, Document], Awaitable[dict[str, Any]]]
"""Answers a question about a project on this node. Raises `SvcError`."""


class NodeAway(SvcError):
    """A node of the fleet did not answer, or could not."""


class Peers(Protocol):
    """The nodes of a fleet. Use it on the event loop that opened it."""

    node: str
    """The id of this node."""

    async def nodes(self) -> Sequence[str]:
        """Return the ids of all nodes, this one too."""

    async def ask(self, node: str, subject: str, project: str, question: Document) -> dict[str, Any]:
        """Return the answer of a node, which may be this one. Raises `NodeAway`.

        Questions only read: one may be asked again until its answer arrives.
        """

    def last_seen(self, node: str) -> int | None:
        """Return the Unix time in ns at which a node last gave a sign of life, if any."""
