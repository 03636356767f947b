"""File locks between svc processes."""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from engine.lane import BuildFailed, BuildRequest

POLL_SECONDS = 0.1


@asynccontextmanager
async def locked(path: Path, report: Callable[[str], None], activity: str) -> AsyncIterator[None]:
    """Lock a file while the body runs; `activity` describes the work of the holder in progress messages.

    The lock ends with its process. Waiting can be canceled.
    """
    with path.open("w") as lock:
        reported = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not reported:
                    report(f"waiting for another build that is {activity} …")
                    reported = True
                await asyncio.sleep(POLL_SECONDS)
        yield


@asynccontextmanager
async def exclusive(request: BuildRequest) -> AsyncIterator[None]:
    """Lock a resource's folder for its `build` command and the copy of its output.

    Raises `BuildFailed` if the cache cannot be written.
    """
    resource = request.resource
    name = sha256(str(resource.workdir).encode(errors="surrogateescape")).hexdigest()
    path = request.cache / "locks" / f"{name[:32]}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise BuildFailed(
            f"resource {resource.name}: {path} cannot be made: {error.strerror}",
            "Check the free space and permissions of the cache folder (SVC_HOME).",
        ) from error
    async with locked(path, request.report, f"running the build command of resource {resource.name}"):
        yield
