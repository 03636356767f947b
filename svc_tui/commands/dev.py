"""`svc dev` and `svc test`."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import InvalidUsage
from engine.http.exchange import MAX_BODY
from engine.http.sockets import bind, bind_reuseport, raise_fd_limit
from engine.manifest.load import find, load
from svc_tui.commands.options import MaxBody, Workers
from svc_tui.project.scaffold import write_schema
from svc_tui.user_home import Home


def dev(
    port: Annotated[
        int,
        typer.Option(
            "--port", "-p", metavar="PORT", min=0, max=65535, help="Port to listen on; 0 picks a free port."
        ),
    ] = 3000,
    release: Annotated[
        bool, typer.Option("--release", help="Serve optimized deploy builds instead of dev builds.")
    ] = False,
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
    sockets = bind_reuseport("localhost", port, workers) if workers > 1 else [bind("localhost", port)]
    cache = Home.from_environment(os.environ).cache()
    settings = Settings(sockets, cache, "deploy" if release else "dev", max_body << 20)
    asyncio.run(run(project, settings))


def test(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="Command to run, with its arguments.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show all requests.")] = False,
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
