"""A lock between processes on a file, for what must be made once. It owns no file but the lock's own."""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from engine.lane import BuildFailed, BuildRequest

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


@asynccontextmanager
async def exclusive(request: BuildRequest) -> AsyncIterator[None]:
    """Run a Resource's own `build`, and take what it leaves, while no other svc does so in that folder.

    Raises `BuildFailed` when the cache can not be written.
    """
    resource = request.resource
    name = sha256(str(resource.workdir).encode(errors="surrogateescape")).hexdigest()
    place = request.cache / "locks" / f"{name[:32]}.lock"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    except OSError as error:
        raise BuildFailed(
            f"resource {resource.name}: {place} can not be made: {error.strerror}",
            "Check that the disk of the cache (SVC_HOME) has room and that you may write there.",
        ) from error
    async with locked(place, request.report, f"running the build command of resource {resource.name}"):
        yield
