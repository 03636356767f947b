"""`svc mcp`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SvcError
from engine.manifest.load import find


def mcp(
    allow_writes: Annotated[
        bool,
        typer.Option("--allow-writes", help="Allow SQL that changes tables, and replays of any method."),
    ] = False,
    service: Annotated[
        bool, typer.Option("--service", help="Work on the deployed project instead of svc dev.")
    ] = False,
) -> None:
    """Serve tools for coding agents on stdin and stdout (Model Context Protocol)."""
    root = find(Path.cwd())
    if find_spec("mcp") is None:
        hint = "Install it: pip install 'svc-tui[mcp]'"
        raise SvcError("the package mcp is not installed", hint, code="mcp-not-installed")
    from svc_tui.mcp.server import run
    from svc_tui.mcp.tools import ProjectTools

    run(ProjectTools(root, service=service, allow_writes=allow_writes))
