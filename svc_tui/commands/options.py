"""Options that several commands share, and values that the shell completes.

Errors complete nothing.
"""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.control.access import Role
from engine.errors import SvcError


def option(metavar: str, help: str, *flags: str, **settings: Any) -> Any:
    """Return the declaration of an option with a value."""
    return typer.Option(*flags, metavar=metavar, help=help, **settings)


def flag(help: str, *flags: str) -> Any:
    """Return the declaration of an option without a value."""
    return typer.Option(*flags, help=help)


def argument(metavar: str, help: str, **settings: Any) -> Any:
    """Return the declaration of an argument."""
    return typer.Argument(metavar=metavar, help=help, **settings)


MAX_BODY_MIB = 8192
"""Maximum of `--max-body`. Bodies stream, so memory does not limit it; a form with the largest file fits."""
AsJson = Annotated[bool, flag("Print one JSON document.", "--json")]
MaxBody = Annotated[int, option("MIB", "Maximum request body size in MiB.", min=1, max=MAX_BODY_MIB)]
PasswordStdin = Annotated[bool, flag("Read the password from the first line of stdin.", "--password-stdin")]
RoleName = Annotated[Role, option("ROLE", "Role: viewer, deployer or owner.", "--role")]
Workers = Annotated[int, option("N", "Number of worker processes.", "--workers", "-w", min=1, max=64)]
Yes = Annotated[bool, flag("Skip the confirmation prompt.", "--yes", "-y")]


def template_names(incomplete: str) -> list[str]:
    """Return the templates of `svc new`."""
    from svc_tui.project.scaffold import TEMPLATES

    return [name for name in TEMPLATES if name.startswith(incomplete)]


def starter_names(incomplete: str) -> list[str]:
    """Return the starters of `svc add`."""
    from svc_tui.project.resource_starter import STARTERS

    return [name for name in STARTERS if name.startswith(incomplete)]


def resource_names(incomplete: str) -> list[str]:
    """Return the resources of the project in this folder."""
    from engine.manifest.load import find, load
    from svc_tui import composition  # noqa: F401 (registers the lanes)

    with suppress(SvcError):
        return [name for name in load(find(Path.cwd())).resources if name.startswith(incomplete)]
    return []


def table_names(incomplete: str) -> list[str]:
    """Return the tables of the project in this folder."""
    from engine.manifest.load import find, load
    from svc_tui import composition  # noqa: F401 (registers the lanes)
    from svc_tui.client.discovery import project_client

    with suppress(SvcError), project_client(load(find(Path.cwd()))) as (client, project):
        tables = client.call("GET", f"/v1/projects/{project.name}/tables")["tables"]
        return [table["name"] for table in tables if table["name"].startswith(incomplete)]
    return []
