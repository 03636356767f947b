"""`svc demo`."""

import asyncio
import os
import random
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.files.temporary import temporary_folder
from svc_tui.client.discovery import find_running
from svc_tui.project.scaffold import create_project
from svc_tui.terminal.signals import on_stop, run_command

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
        typer.Option(
            "--port",
            "-p",
            metavar="PORT",
            min=0,
            max=65535,
            help="Port of the application (default: 3000, or a free one for the Console).",
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
