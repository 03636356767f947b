"""Work in a thread that is waited for to its end, also by those who go away."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def threaded(work: Callable[[], _T]) -> _T:
    """Call a function in a thread, and be at the end when it is, also when nobody waits for it any more."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait({working})
