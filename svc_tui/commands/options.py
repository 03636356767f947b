"""Options that several commands share, and values that the shell completes: those with the typed beginning.

Errors complete nothing.
"""

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.control.access import Role
from engine.errors import SvcError
from svc_tui.terminal.stdout import Answer


def option(metavar: str, help: str, *flags: str, **settings: Any) -> Any:
    """Return the declaration of an option with a value. The help names the variable of an `envvar`."""
    return typer.Option(*flags, metavar=metavar, help=help, show_envvar=False, **settings)


def port_option(help: str, *flags: str) -> Any:
    return option("PORT", help, *flags, min=0, max=65535)


def flag(help: str, *flags: str) -> Any:
    return typer.Option(*flags, help=help)


def argument(metavar: str, help: str, **settings: Any) -> Any:
    return typer.Argument(metavar=metavar, help=help, **settings)


MAX_BODY_MIB = 8192
"""Maximum of `--max-body`. Bodies stream, so memory does not limit it; a form with the largest file fits."""
AsJson = Annotated[bool, flag("Print one JSON document.", "--json")]
MaxBody = Annotated[int, option("MIB", "Maximum request body size in MiB.", min=1, max=MAX_BODY_MIB)]
PasswordStdin = Annotated[bool, flag("Read the password from the first line of stdin.", "--password-stdin")]
RoleName = Annotated[Role, option("ROLE", "Role: viewer, deployer or owner.", "--role")]
Workers = Annotated[int, option("N", "Number of worker processes.", "--workers", "-w", min=1, max=64)]
Yes = Annotated[bool, flag("Skip the confirmation prompt.", "--yes", "-y")]


class Commands(typer.Typer):
    """A group of commands. Those that return an `Answer` get the option --json, which prints its document."""

    def command(self, *name: Any, **settings: Any) -> Callable[[Any], Any]:
        """Return a decorator that adds a function as a command."""
        add = super().command(*name, **settings)

        def add_printing(function: Any) -> Any:
            add(_printing(function) if inspect.get_annotations(function)["return"] is Answer else function)
            return function

        return add_printing


def _printing(function: Callable[..., Answer]) -> Callable[..., int]:
    @functools.wraps(function)
    def run(*, as_json: bool, **options: Any) -> int:
        return function(**options).write(as_json=as_json)

    own = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values(), own]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def resource_names() -> list[str]:
    """Return the resources of the project in this folder."""
    from engine.manifest.load import find, load
    from svc_tui import composition  # noqa: F401 (registers the lanes)

    with suppress(SvcError):
        return list(load(find(Path.cwd())).resources)
    return []


def table_names() -> list[str]:
    """Return the tables of the project in this folder."""
    from engine.manifest.load import find, load
    from svc_tui import composition  # noqa: F401 (registers the lanes)
    from svc_tui.client.discovery import project_client

    with suppress(SvcError), project_client(load(find(Path.cwd()))) as (client, _):
        return [table["name"] for table in client.get("tables")["tables"]]
    return []
