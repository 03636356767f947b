"""`svc mcp`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from engine.errors import SvcError
from engine.manifest.load import find
from svc_tui.commands.options import flag


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
