"""Access to a service's data directory on this machine without a login; write permission makes an owner.

The commands use the service that runs on the directory, or start one in this process.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.bucket.errors import BucketInUse
from engine.bucket.folder import FolderBucket
from engine.errors import SvcError
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from svc_tui.client.discovery import find_running

CLOSE_SECONDS = 1.0


def ensure_usable(folder: Path) -> None:
    """Check that a data directory is usable, and initialize an empty one. Raises `SvcError` if it is not."""
    if (client := _running(folder)) is not None:
        client.close()
        return
    try:
        bucket = FolderBucket(folder, "svc login")
    except BucketInUse as error:
        raise SvcError(error.message, "Log in at the URL of its control API: `svc login URL`.") from error
    asyncio.run(bucket.aclose())


@contextmanager
def service_client(folder: Path) -> Iterator[Client]:
    """Yield a client with the owner role for a data directory. Raises `SvcError` if the service fails."""
    if (running := _running(folder)) is not None:
        with running:
            yield running
        return
    with _run_service(folder):
        client = _running(folder)
        if client is None:
            raise SvcError(f"the service on {folder} did not start", "Run `svc serve` to see the error.")
        with client:
            yield client


def _running(folder: Path) -> Client | None:
    return find_running(folder, "/v1/whoami")


@contextmanager
def _run_service(folder: Path) -> Iterator[None]:
    """Run the service on a thread of this process, with its applications on a random port."""
    from engine.http.sockets import bind
    from svc_tui.serve.server import ServiceSettings, run_service

    public, control = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
    settings = ServiceSettings(
        data=folder,
        public=[public],
        control=control,
        domain="localhost",
        origin="http://{}",
        certificate=None,
        grace=CLOSE_SECONDS,
        log=lambda level, text: None,
    )
    try:
        with run_in_background(lambda stop: run_service(settings, stop), "service"):
            yield
    finally:
        for listener in (*public, *control):
            listener.close()
