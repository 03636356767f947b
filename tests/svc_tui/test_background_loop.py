"""Contexts on background threads: values, errors and completion."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from svc_tui.background_loop import BackgroundLoop, run_in_background


class Course:
    """A context manager that records its state."""

    def __init__(self, fails_first: bool = False) -> None:
        self.exited = threading.Event()
        self._fails_first = fails_first

    @asynccontextmanager
    async def serve(self, stop: asyncio.Event) -> AsyncIterator[str]:
        if self._fails_first:
            raise ValueError("before")
        try:
            yield threading.current_thread().name
        finally:
            self.exited.set()


def failing_while_it_serves(fail: asyncio.Event) -> Callable[..., AbstractAsyncContextManager[object]]:
    @asynccontextmanager
    async def serve(stop: asyncio.Event) -> AsyncIterator[asyncio.AbstractEventLoop]:
        async def work() -> None:
            await fail.wait()
            raise ValueError("while it served")

        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            yield asyncio.get_running_loop()

    return serve


def test_context_is_entered_in_thread_and_exited_by_stop() -> None:
    course = Course()
    with run_in_background(course.serve, "serving") as name:
        assert name == "serving"
        assert not course.exited.is_set()
    assert course.exited.is_set()


def test_error_on_enter_is_raised_by_ready() -> None:
    with (
        pytest.raises(ValueError, match="before"),
        run_in_background(Course(fails_first=True).serve, "serving"),
    ):
        pytest.fail("nothing was given")


def test_error_while_running_is_raised_by_finished() -> None:
    fail = asyncio.Event()
    thread = BackgroundLoop(failing_while_it_serves(fail), "serving")
    loop = thread.ready.result(20)
    assert isinstance(loop, asyncio.AbstractEventLoop)
    assert not thread.finished.done()
    loop.call_soon_threadsafe(fail.set)
    with pytest.raises(ExceptionGroup) as exc_info:
        thread.finished.result(20)
    assert exc_info.group_contains(ValueError, match="while it served")
    thread.stop()


def test_stop_twice_is_allowed() -> None:
    thread = BackgroundLoop(Course().serve, "serving")
    assert thread.ready.result(20) == "serving"
    thread.stop()
    thread.stop()
    assert thread.finished.result(0) is None


def test_wait_that_is_canceled_on_entering_ends_the_thread() -> None:
    """A Console that is closed while its engine starts cancels what the engine waits for."""

    @asynccontextmanager
    async def serve(stop: asyncio.Event) -> AsyncIterator[None]:
        presence = asyncio.get_running_loop().create_future()
        presence.cancel()
        yield await presence

    loop = BackgroundLoop(serve, "engine")
    assert isinstance(loop.finished.exception(), asyncio.CancelledError)
    loop.stop()
