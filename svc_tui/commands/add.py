"""`svc add`."""

from pathlib import Path
from typing import Annotated

import typer

from engine.manifest import MANIFEST
from engine.manifest.load import find, load
from engine.manifest.problems import alternatives
from svc_tui.commands.completion import resource_names, starter_names
from svc_tui.commands.options import AsJson
from svc_tui.project import resource_starter
from svc_tui.terminal import stderr, stdout


def add(
    starter: Annotated[
        str,
        typer.Argument(
            metavar="STARTER",
            help=f"{alternatives([*resource_starter.STARTERS])}.",
            autocompletion=starter_names,
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the resource and of its folder.")],
    mount: Annotated[
        str,
        typer.Option(
            "--mount", "-m", metavar="PATTERN", show_default=False, help="Its mount (default: /NAME/*)."
        ),
    ] = "",
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="RESOURCE",
            show_default=False,
            help="Resource to mount it on (default: the front).",
            autocompletion=resource_names,
        ),
    ] = "",
    public: Annotated[
        bool, typer.Option("--public", help="Give it an address of its own instead of a mount.")
    ] = False,
    table: Annotated[
        str, typer.Option("--table", "-t", metavar="TABLE", help="Create a table that it reads and writes.")
    ] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Show the change without writing it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a resource to the project in this folder: sources, manifest and mount."""
    project = load(find(Path.cwd()))
    resource = resource_starter.new_resource(
        project, starter, name, mount=mount, on=on, public=public, table=table
    )
    addition = resource_starter.plan(project, resource)
    if not plan:
        resource_starter.write(addition)
    files = [path.relative_to(project.root).as_posix() for path in addition.files]
    if as_json:
        stdout.data(
            {"written": not plan, "files": files, "path": resource.path, "diff": addition.manifest.diff}
        )
        return
    stdout.diff(addition.manifest.diff)
    for file in files:
        stderr.note(f"{'would create' if plan else 'created'} {file}")
    if resource.starter.serves_files and resource.prefix:
        stderr.note(
            f"requests have the path {resource.prefix}/, so the files are in {name}{resource.prefix}/"
        )
    if plan:
        stderr.note("nothing was written (--plan)")
    else:
        stderr.note(f"wrote {MANIFEST}; with `svc dev`, {name} answers at {resource.path}")
        if project.front is not None and load(project.root).front is None:
            hint = f'Add to [project] in {MANIFEST}: front = "{project.front.name}"'
            stderr.warn("the project has no address any more: two resources could be its front", hint)
