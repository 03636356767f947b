"""Runs blocking calls on threads. A canceled caller still waits until its call has finished."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from engine.bucket.errors import BucketClosed
from engine.cancellation import finish

P = ParamSpec("P")
T = TypeVar("T")


class BlockingCalls:
    """A small thread pool."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="bucket")
        self._closed = False

    async def call(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function and return its result. Raises its errors, and `BucketClosed`."""
        if self._closed:
            raise BucketClosed
        return await finish(asyncio.wrap_future(self._pool.submit(step, *args, **kwargs)))

    async def aclose(self) -> None:
        """Wait for running calls."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
