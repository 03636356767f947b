"""`svc mount`: mounts in `svc.toml`."""

from pathlib import Path
from typing import Annotated

import typer

from engine.manifest import MANIFEST, edit
from engine.manifest.load import find, load
from svc_tui.commands.completion import resource_names
from svc_tui.commands.options import AsJson
from svc_tui.terminal import stderr, stdout

mount = typer.Typer(help="List, add and remove mounts in svc.toml.")
Parent = Annotated[
    str,
    typer.Argument(metavar="RESOURCE", help="Resource that gets the mount.", autocompletion=resource_names),
]
Pattern = Annotated[str, typer.Argument(metavar="PATTERN", help="Path: /prefix/* or an exact /path.")]
Plan = Annotated[bool, typer.Option("--plan", help="Show the change without writing it.")]


@mount.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the mounts of the project in this folder, in file order."""
    resources = load(find(Path.cwd())).resources
    mounts = [
        (name, mount.pattern, mount.target) for name, parent in resources.items() for mount in parent.mounts
    ]
    if as_json:
        stdout.data({"mounts": [{"resource": a, "pattern": b, "target": c} for a, b, c in mounts]})
        return
    if not stdout.is_terminal():
        stdout.styled_lines([[("\t".join(row), "")] for row in mounts])
        return
    if not mounts:
        stderr.note("no mounts; add one with `svc mount add RESOURCE PATTERN TARGET`")
    names, patterns = (max((len(row[column]) for row in mounts), default=0) for column in (0, 1))
    for name, pattern, target in mounts:
        stdout.styled([(f"{name:<{names}}", "cyan"), (f"  {pattern:<{patterns}}  → {target}", "")])


@mount.command()
def add(
    resource: Parent,
    pattern: Pattern,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="Resource that handles the requests.", autocompletion=resource_names
        ),
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing mount of this pattern.")
    ] = False,
    plan: Plan = False,
    as_json: AsJson = False,
) -> None:
    """Mount TARGET at PATTERN of RESOURCE."""
    change: edit.Change = edit.AddMount(resource, pattern, target)
    root = find(Path.cwd())
    parent = load(root).resources.get(resource) if replace else None
    if parent is not None and any(mount.pattern == pattern for mount in parent.mounts):
        change = edit.ChangeMount(resource, pattern, pattern, target)
    _edit(root, change, plan=plan, as_json=as_json)


@mount.command()
def rm(resource: Parent, pattern: Pattern, plan: Plan = False, as_json: AsJson = False) -> None:
    """Remove a mount."""
    _edit(find(Path.cwd()), edit.RemoveMount(resource, pattern), plan=plan, as_json=as_json)


def _edit(root: Path, change: edit.Change, *, plan: bool, as_json: bool) -> None:
    manifest_plan = edit.plan(root, [change])
    diff = manifest_plan.diff
    if not plan:
        edit.write(manifest_plan)
    if as_json:
        stdout.data({"written": bool(diff) and not plan, "diff": diff})
        return
    stdout.diff(diff)
    if not diff:
        stderr.note(f"{MANIFEST} is unchanged: the mount is as requested")
    elif plan:
        stderr.note("nothing was written (--plan)")
    else:
        stderr.note(
            f"wrote {MANIFEST}; a running `svc dev` applies it at once, the service with the next deploy"
        )
