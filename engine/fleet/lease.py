"""Leases of nodes, as messages of a stream: a node alone may do something while it holds its lease.

A node stores its lease below its own subject and renews it, expecting its former message to be the last one.
Another node ends the lease by storing a message there, expecting a renewal that it saw LEASE_SECONDS before.
So no renewal was stored after that one. Both use their own monotonic clocks: the holder counts from before it
sent a renewal, the other node from after it saw it, so the lease is over for its holder first.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from engine.bucket.protocols import BucketError
from engine.cancellation import cancel
from engine.fleet.stream import JetStream

LEASE_SECONDS = 2.0
MARGIN_SECONDS = 0.2
"""For its holder the lease ends this much before others may end it: clocks run at different speeds."""
RENEW_SECONDS = 0.5
SUBJECT = "=lease."
_REPLACE = {"Nats-Rollup": "sub"}
"""Header: the message replaces the one before."""
_log = logging.getLogger("svc.fleet")


class NodeLease:
    """The lease of this node, and what it observes of other leases. Use it on one event loop."""

    def __init__(self, stream: JetStream, node: str) -> None:
        self._stream, self._node = stream, node
        self._id = ""
        self._sequence = 0
        """Sequence of the last message of this node's subject."""
        self._until = 0.0
        self._observed: dict[str, tuple[int, float]] = {}
        """The last message that was seen of each node, and when (monotonic seconds)."""

    @property
    def name(self) -> str:
        """The lease, `NODE.ID`; empty without one."""
        return f"{self._node}.{self._id}" if self._id else ""

    def holds(self, lease: str) -> bool:
        """Return whether a lease is this one and cannot have ended. Call it on any thread."""
        return lease != "" and lease == self.name and time.monotonic() < self._until

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None, None]:
        """Acquire the lease, and renew it within the context."""
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            await cancel([renewing])
            self._until = 0.0
            with suppress(BucketError):
                await self._store(b"", LEASE_SECONDS)
            self._id = ""

    async def _renew(self) -> None:
        while True:
            try:
                sent, id_ = time.monotonic(), self._id or secrets.token_hex(6)
                if await self._store(id_.encode(), LEASE_SECONDS):
                    self._id, self._until = id_, sent + LEASE_SECONDS - MARGIN_SECONDS
                else:
                    await self._read_own()
                    continue
            except BucketError as error:
                _log.debug("the lease was not renewed: %s", error)
            except Exception:
                _log.exception("the lease was not renewed")
            await asyncio.sleep(RENEW_SECONDS)

    async def _store(self, content: bytes, seconds: float) -> bool:
        sequence = await self._stream.publish(
            SUBJECT + self._node, content, expected=self._sequence, headers=_REPLACE, seconds=seconds
        )
        self._sequence = sequence or self._sequence
        return sequence is not None

    async def _read_own(self) -> None:
        """Note what was stored: a renewal whose answer was lost, or the end of the lease."""
        message = await self._stream.last(SUBJECT + self._node, LEASE_SECONDS)
        self._sequence = message.sequence if message is not None else 0
        if self._id and (message is None or message.content != self._id.encode()):
            _log.warning("another node has ended the lease of this node, which did not answer")
            self._id = ""

    async def is_over(self, lease: str) -> bool:
        """Return whether a lease has ended. Repeated calls end one that is not renewed meanwhile.

        Raises `BucketError`.
        """
        node, _, id_ = lease.partition(".")
        if node == self._node:
            return lease != self.name
        message = await self._stream.last(SUBJECT + node, LEASE_SECONDS)
        if message is None or message.content != id_.encode():
            return True
        sequence, since = self._observed.get(node, (0, 0.0))
        if sequence != message.sequence:
            self._observed[node] = message.sequence, time.monotonic()
            return False
        if time.monotonic() - since < LEASE_SECONDS:
            return False
        end = await self._stream.publish(
            SUBJECT + node, expected=sequence, headers=_REPLACE, seconds=LEASE_SECONDS
        )
        return end is not None
