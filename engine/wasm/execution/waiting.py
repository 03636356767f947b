"""A request that waits for a free instance, and its client, who may leave meanwhile.

Owns what is read of the request in the meantime: enough to hear of a client that leaves, and no more than
`READ_AHEAD` of an upload. Who is next is `pool.py`'s to say.
"""

import asyncio
from collections import deque
from typing import Any

from engine.wasm.execution.pool import Pool
from engine.wasm.execution.request import Receive
from engine.wasm.execution.warm_slots import ComponentUsage

READ_AHEAD = 65_536
"""Bytes of a body that are read while its request waits."""


class ClientGone(Exception):
    """The client left before its request had a slot."""


class Ahead:
    """The messages of a request, some of them read before anybody asked."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read: deque[dict[str, Any]] = deque()

    async def receive(self) -> dict[str, Any]:
        """Return the next message, as ASGI's `receive` does."""
        return self._read.popleft() if self._read else await self._receive()

    async def gone(self) -> bool:
        """Read until the client leaves (`True`), or until `READ_AHEAD` of its body waits."""
        size = 0
        while size < READ_AHEAD:
            message = await self._receive()
            self._read.append(message)
            if message["type"] == "http.disconnect":
                return True
            size += len(message.get("body", b""))
        return False


async def slot(
    pool: Pool, project: str, use: ComponentUsage, ahead: Ahead, gone: "asyncio.Future[None] | None"
) -> int | None:
    """Wait for a slot: what `Pool.wait` returns. Raises `ClientGone`; then the place in the queue is free.

    `gone` is done when the client leaves; where it is not known, what the client sends tells.
    """
    loop = asyncio.get_running_loop()
    taking, leaving = loop.create_task(pool.wait(project, use)), loop.create_task(ahead.gone())
    signs: set[asyncio.Future[Any]] = {leaving} if gone is None else {leaving, gone}
    try:
        while not taking.done():
            done, _ = await asyncio.wait({taking, *signs}, return_when=asyncio.FIRST_COMPLETED)
            signs -= done
            if not taking.done() and (gone in done or (leaving in done and leaving.result())):
                raise ClientGone
        return taking.result()
    except BaseException:
        taking.cancel()
        [taken] = await asyncio.gather(taking, return_exceptions=True)
        if isinstance(taken, int):
            pool.give_back(taken, project)
        raise
    finally:
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
