"""`svc version`."""

import platform
from typing import Annotated

import typer

from svc_tui import version as installed_version
from svc_tui.terminal import stdout


def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print the version of svc."""
    if as_json:
        system = f"{platform.system()} {platform.machine()}"
        stdout.data({"version": installed_version(), "python": platform.python_version(), "platform": system})
        return
    stdout.line(f"svc {installed_version()}")
