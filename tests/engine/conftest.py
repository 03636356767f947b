"""The engine's tests run on the event loop of the service."""

import asyncio
from collections.abc import Iterator

import pytest
import uvloop


class Policy(asyncio.DefaultEventLoopPolicy):
    """Creates loops of uvloop; those of asyncio still start subprocesses."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return uvloop.new_event_loop()


@pytest.fixture(autouse=True)
def loop_policy() -> Iterator[None]:
    """Set a policy with which `asyncio.run` creates loops of uvloop."""
    asyncio.set_event_loop_policy(Policy())
    yield
    asyncio.set_event_loop_policy(None)
