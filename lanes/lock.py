"""A lock between processes on a file, for what must be made once. It owns no file but the lock's own."""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

POLL_SECONDS = 0.1


@asynccontextmanager
async def locked(path: Path, report: Callable[[str], None], doing: str) -> AsyncIterator[None]:
    """Hold an exclusive lock while the body runs; `doing` says what its present holder is at.

    The lock ends with the process that holds it. Waiting may be cancelled.
    """
    with path.open("w") as lock:
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    report(f"waiting for another build that is {doing} …")
                    told = True
                await asyncio.sleep(POLL_SECONDS)
        yield
