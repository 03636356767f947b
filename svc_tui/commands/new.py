"""`svc new`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from engine.manifest import MANIFEST
from engine.manifest.problems import alternatives
from svc_tui.commands.completion import template_names
from svc_tui.project.scaffold import TEMPLATES, create_project
from svc_tui.terminal import prompt, stderr, stdout

DEFAULT_TEMPLATE = "notes"


def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            show_default=False,
            help="Folder to create, or `.`; its last part is the project's name. Asks for it on a terminal.",
        ),
    ] = "",
    template: Annotated[
        str,
        typer.Option(
            "--template",
            "-t",
            metavar="TEMPLATE",
            autocompletion=template_names,
            help=f"{alternatives([*TEMPLATES])}.",
        ),
    ] = DEFAULT_TEMPLATE,
) -> None:
    """Create a project from a template."""
    if not name:
        name, template = _prompt(template)
    target = Path(name)
    outer = next((path for path in target.absolute().parents if (path / MANIFEST).is_file()), None)
    create_project(target if target.name else target.resolve(), template)
    if outer is not None:
        stderr.warn(f"{target} is inside the project in {outer}", "Move it, if it is a project of its own.")
    stderr.note(f"created {target} from the {template} template; next:")
    if target.name:
        stdout.line(f"  cd {shlex.quote(str(target))}")
    stdout.line("  svc")


def _prompt(template: str) -> tuple[str, str]:
    """Ask for the name and the template. Raises `NotInteractive`."""
    name = prompt.line("name", "Pass the name: `svc new my-app`.")
    width = max(map(len, TEMPLATES))
    for known, summary in TEMPLATES.items():
        stderr.note(f"  {known:<{width}}  {summary}")
    return name, prompt.line("template", "Pass --template.", template)
