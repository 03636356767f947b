"""`svc new`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from svc_tui.project.scaffold import create_project
from svc_tui.terminal import stderr, stdout


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Folder to create; its last part is the project's name.")
    ],
    template: Annotated[
        str,
        typer.Option(
            "--template",
            "-t",
            metavar="TEMPLATE",
            help="notes, pulse, guestbook, members, polyglot, static, js, go or rust.",
        ),
    ] = "notes",
) -> None:
    """Create a project from a template."""
    target = Path(name)
    create_project(target, template)
    stderr.note(f"created {target} from the {template} template; next:")
    stdout.line(f"  cd {shlex.quote(str(target))}")
    stdout.line("  svc dev")
