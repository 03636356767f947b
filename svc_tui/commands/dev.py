"""`svc dev`, `svc test`, `svc demo` and `svc mcp`."""

import asyncio
import os
import random
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from engine.control.discovery import find_endpoint
from engine.errors import InvalidUsage, SvcError
from engine.files.data_dir import DATA_DIR
from engine.files.temporary import temporary_folder
from engine.http.exchange import MAX_BODY
from engine.http.sockets import PortInUse, bind, bind_reuseport, raise_fd_limit
from engine.manifest.load import find, load
from svc_tui.commands.options import MaxBody, Workers, argument, flag, port_option
from svc_tui.project.scaffold import create_project, write_schema
from svc_tui.terminal.signals import on_stop, run_command
from svc_tui.user_home import Home


def dev(
    port: Annotated[int, port_option("Port to listen on; 0 picks a free port.", "--port", "-p")] = 3000,
    release: Annotated[
        bool, flag("Serve optimized deploy builds instead of dev builds.", "--release")
    ] = False,
    schedules: Annotated[bool, flag("Run the schedules at their times.", "--schedules")] = False,
    workers: Workers = 1,
    max_body: MaxBody = MAX_BODY >> 20,
) -> None:
    """Serve the project in this folder at http://localhost:PORT and rebuild on save."""
    root = find(Path.cwd())
    project = load(root)
    write_schema(root)
    # Imported on demand: the engine takes most of a start.
    from svc_tui.dev.server import Settings
    from svc_tui.dev.terminal import run

    raise_fd_limit()
    try:
        sockets = bind_reuseport("localhost", port, workers) if workers > 1 else [bind("localhost", port)]
    except PortInUse as error:
        other = find_endpoint(root / DATA_DIR)
        if other is None or not other.is_running:
            raise
        text = f"{error.message}; the Console or another svc dev (process {other.pid}) serves this project"
        raise PortInUse(text, error.hint) from error
    cache = Home.from_environment(os.environ).cache()
    settings = Settings(sockets, cache, "deploy" if release else "dev", max_body << 20, schedules=schedules)
    asyncio.run(run(project, settings))


def test(
    command: Annotated[
        list[str] | None, argument("-- COMMAND", "Command to run, with its arguments.")
    ] = None,
    verbose: Annotated[bool, flag("Show all requests.", "--verbose", "-v")] = False,
) -> int:
    """Serve the project with new data while a command runs. Example: svc test -- npm test"""
    if not command:
        raise InvalidUsage("no command to run was given", "Put it after --, such as `svc test -- npm test`.")
    project = load(find(Path.cwd()))
    from svc_tui.dev.server import Settings
    from svc_tui.dev.terminal import run_test

    raise_fd_limit()
    settings = Settings([bind("localhost", 0)], Home.from_environment(os.environ).cache(), "dev")
    return asyncio.run(run_test(project, settings, command, verbose=verbose))


TEMPLATE = "notes"
REQUESTS = (
    (4, "GET", "/", None),
    (2, "GET", "/style.css", None),
    (6, "GET", "/api/notes", None),
    (3, "POST", "/api/notes", {"text": "Water the plants"}),
    (2, "POST", "/api/notes", {"text": "Call Ada about the engine"}),
    (1, "POST", "/api/notes", {"text": ""}),
    (1, "GET", "/missing", None),
)
"""The made-up traffic: weight, method, path and JSON of requests, two of which are refused."""
PER_SECOND = 3.0
_START_SECONDS = 0.3
"""Interval of the attempts to find the application."""


def demo(
    port: Annotated[
        int | None,
        port_option(
            "Port of the application (default: 3000, or a free one for the Console).", "--port", "-p"
        ),
    ] = None,
) -> int:
    """Show a sample application with made-up traffic in the Console. Leaves no files behind."""
    return asyncio.run(_run(["--port", str(port)] if port is not None else []))


async def _run(options: list[str]) -> int:
    """Run the Console or, without a terminal, `svc dev`; return its exit code.

    As it is another process, none of its ends prevents the removal of the folder.
    """
    signals = asyncio.Queue[int]()
    on_stop(signals.put_nowait)
    with temporary_folder("svc-demo-") as folder:
        project = folder / TEMPLATE
        create_project(project, TEMPLATE)
        terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
        command = [sys.executable, "-m", "svc_tui", "console" if terminal else "dev", *options]
        ended = threading.Event()
        threading.Thread(target=_send_requests, args=(project / DATA_DIR, ended)).start()
        try:
            return await run_command(command, project, os.environ | {"TMPDIR": str(folder)}, signals)
        finally:
            ended.set()


def _send_requests(data: Path, ended: threading.Event) -> None:
    """Send requests to the application once it is built, until `ended` is set."""
    import httpx

    from svc_tui.client.discovery import find_running

    address = ""
    while not address and not ended.wait(_START_SECONDS):
        if (running := find_running(data, "/v1/projects")) is not None:
            with running, suppress(SvcError):
                state = running.call("GET", f"/v1/projects/{TEMPLATE}/state")
                if all(each["state"] == "ready" for each in state["resources"]):
                    address = state["address"]
    weights = [weight for weight, *_ in REQUESTS]
    with httpx.Client(base_url=address, trust_env=False, timeout=30) as client:
        while not ended.wait(random.expovariate(PER_SECOND)):
            (_, method, path, document), *_ = random.choices(REQUESTS, weights)
            with suppress(httpx.HTTPError):
                client.request(method, path, json=document)


def mcp(
    allow_writes: Annotated[
        bool, flag("Allow SQL that changes tables, and replays of any method.", "--allow-writes")
    ] = False,
    service: Annotated[bool, flag("Work on the deployed project instead of svc dev.", "--service")] = False,
) -> None:
    """Serve tools for coding agents on stdin and stdout (Model Context Protocol)."""
    root = find(Path.cwd())
    if find_spec("mcp") is None:
        hint = "Install it: pip install 'svc-tui[mcp]'"
        raise SvcError("the package mcp is not installed", hint, code="mcp-not-installed")
    from svc_tui.mcp.server import ProjectTools, run

    run(ProjectTools(root, service=service, allow_writes=allow_writes))
