"""Control APIs on this machine: of running processes, found by their discovery files, or of this one.

Write permission for the data directory of a service makes an owner, without a login.
"""

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from engine.control.discovery import find_endpoint
from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.manifest.model import Project
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client, Unreachable

_T = TypeVar("_T")
CLOSE_SECONDS = 1.0
LOCK_SECONDS = 5.0
"""How long a command waits for another process that has the folder, and does not answer."""


def find_running(folder: Path, path: str) -> Client | None:
    """Return a client of the control API published in `folder`, or None if GET `path` fails there."""
    presence = find_endpoint(folder)
    if presence is None or (presence.of_command and presence.pid != os.getpid()):
        return None
    client = Client(presence.url, presence.token)
    try:
        client.call("GET", path)
    except SvcError:
        client.close()
        return None
    return client


@contextmanager
def project_client(project: Project) -> Iterator[tuple[Client, Project]]:
    """Yield a client of the project's control API, served by its `svc dev` or else here, and the project."""
    folder = project.root / DATA_DIR
    if (running := find_running(folder, "/v1/projects")) is not None:
        with running:
            running.project = project.name
            yield running, project
        return
    # The API server takes half a second to load.
    from engine.control.local_server import serve_local
    from svc_tui.composition import project_api

    with (
        run_in_background(
            lambda _: serve_local(folder, project_api(project.name, folder), announce=False), "control"
        ) as presence,
        Client(presence.url, presence.token) as client,
    ):
        client.project = project.name
        yield client, project


def ensure_usable(folder: Path) -> None:
    """Check that a data directory is usable, and initialize an empty one. Raises `SvcError` if it is not."""
    from engine.bucket.folder import FolderBucket
    from engine.bucket.protocols import BucketInUse

    try:
        opened = _running_or_opened(folder, lambda: FolderBucket(folder, "svc login"))
    except BucketInUse as error:
        raise SvcError(error.message, "Log in at the URL of its control API: `svc login URL`.") from error
    if isinstance(opened, Client):
        opened.close()
    else:
        asyncio.run(opened.aclose())


def _running_or_opened(folder: Path, open_folder: Callable[[], _T]) -> Client | _T:
    """Return a client of the service that runs on a folder, or the result of opening the folder.

    Wait for a service that starts, and for another command that uses the folder. Raise `FleetError` for the
    data directory of a node that needs its fleet to serve.
    """
    from engine.bucket.protocols import BucketInUse
    from engine.fleet.errors import FleetError
    from engine.fleet.node import find_node

    end = time.monotonic() + LOCK_SECONDS
    while (client := find_running(folder, "/v1/whoami")) is None:
        node = find_node(folder)
        if node is not None and node.state != "founding":
            raise FleetError(
                f"the service on {folder} is the node {node.node} of a fleet, and is not running",
                f"Run `svc serve --data {folder}`, or log in to another node: `svc login URL`.",
            )
        try:
            return open_folder()
        except BucketInUse:
            if time.monotonic() >= end:
                raise
            time.sleep(0.05)
    return client


@contextmanager
def service_client(folder: Path, *, running: bool = False) -> Iterator[Client]:
    """Yield a client with the owner role for a data directory. Raises `SvcError` if the service fails.

    With `running`, raise `Unreachable` for a stopped service instead of opening its folder, which a start
    would have to wait for.
    """
    from engine.bucket.layout import VERSION
    from engine.bucket.protocols import BucketInUse, disk_errors

    def open_folder() -> None:
        with disk_errors(folder):
            lost = not (folder / VERSION).exists()
        if lost:  # For example, its disk is not mounted.
            hint = f"Mount or restore it. For an empty one: svc login --data {shlex.quote(str(folder))}"
            raise Unreachable(f"{folder} has no data of a service", hint)
        stack.enter_context(_run_service(folder))

    with ExitStack() as stack:
        if not running:
            try:
                client = _running_or_opened(folder, open_folder)
            except BucketInUse as error:
                hint = "A service that starts or stops does not answer commands: try again in a minute."
                raise Unreachable(error.message, hint) from error
        elif (client := find_running(folder, "/v1/whoami")) is None:
            hint = f"Start it: svc serve --data {shlex.quote(str(folder))}"
            raise Unreachable(f"the service on {folder} is stopped", hint)
        if client is None:
            client = find_running(folder, "/v1/whoami")
            if client is None:
                raise SvcError(f"the service on {folder} did not start", "Run `svc serve` to see the error.")
            client.stopped = True
        yield stack.enter_context(client)


@contextmanager
def _run_service(folder: Path) -> Iterator[None]:
    """Run the service on a thread of this process, with its applications on a random port."""
    from engine.http.sockets import bind
    from svc_tui.serve.runtime import ServiceSettings
    from svc_tui.serve.server import run_service

    public, control = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
    settings = ServiceSettings(
        data=folder,
        public=[public],
        control=control,
        domain="<domain>",  # Known to `svc serve` only.
        origin="{}",
        certificate=None,
        grace=CLOSE_SECONDS,
        log=lambda level, text: None,
        serving=False,
    )
    try:
        with run_in_background(lambda stop: run_service(settings, stop), "service"):
            yield
    finally:
        for listener in (*public, *control):
            listener.close()
