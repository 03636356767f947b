"""`svc mount`: which Resource answers below which path of another one, as `svc.toml` says it."""

from pathlib import Path
from typing import Annotated

import typer

from engine.manifest import MANIFEST, edit
from engine.manifest.load import find, load
from svc_tui.terminal import stderr, stdout

mount = typer.Typer(help="Mounts: list them, add and remove them in svc.toml.", no_args_is_help=True)
Of = Annotated[str, typer.Argument(metavar="RESOURCE", help="The Resource whose requests it takes.")]
Pattern = Annotated[str, typer.Argument(metavar="PATTERN", help="/prefix/* or an exact /path.")]
Plan = Annotated[bool, typer.Option("--plan", help="Show what would change, and write nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@mount.command("list")
def list_(as_json: Json = False) -> None:
    """List the mounts of the Project in this folder, in the order of the file."""
    resources = load(find(Path.cwd())).resources
    found = [(name, each.pattern, each.target) for name, of in resources.items() for each in of.mounts]
    if as_json:
        stdout.data({"mounts": [{"resource": a, "pattern": b, "target": c} for a, b, c in found]})
        return
    if not stdout.is_terminal():
        stdout.styled_lines([[("\t".join(row), "")] for row in found])
        return
    if not found:
        stderr.note("there are no mounts; `svc mount add RESOURCE PATTERN TARGET` adds one")
    names, patterns = (max((len(row[column]) for row in found), default=0) for column in (0, 1))
    for name, pattern, target in found:
        stdout.styled([(f"{name:<{names}}", "cyan"), (f"  {pattern:<{patterns}}  → {target}", "")])


@mount.command()
def add(
    resource: Of,
    pattern: Pattern,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The Resource that answers.")],
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a mount there.")] = False,
    plan: Plan = False,
    as_json: Json = False,
) -> None:
    """Have TARGET answer the requests to RESOURCE whose path is of PATTERN."""
    change: edit.Change = edit.AddMount(resource, pattern, target)
    root = find(Path.cwd())
    if (
        replace
        and (of := load(root).resources.get(resource))
        and any(m.pattern == pattern for m in of.mounts)
    ):
        change = edit.ChangeMount(resource, pattern, pattern, target)
    _edit(root, change, plan=plan, as_json=as_json)


@mount.command()
def rm(resource: Of, pattern: Pattern, plan: Plan = False, as_json: Json = False) -> None:
    """Remove a mount."""
    _edit(find(Path.cwd()), edit.RemoveMount(resource, pattern), plan=plan, as_json=as_json)


def _edit(root: Path, change: edit.Change, *, plan: bool, as_json: bool) -> None:
    planned = edit.plan(root, [change])
    diff = planned.diff
    if not plan:
        edit.write(planned)
    if as_json:
        stdout.data({"written": bool(diff) and not plan, "diff": diff})
        return
    for line in diff.splitlines():
        stdout.styled([(line, _STYLES.get(line[0], "") if line[:3] not in {"+++", "---"} else "bold")])
    if not diff:
        stderr.note(f"{MANIFEST} says so already")
    elif plan:
        stderr.note("nothing is written")
    else:
        stderr.note(f"{MANIFEST} is written; a running `svc dev` applies it at once, the service by a deploy")
