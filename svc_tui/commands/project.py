"""`svc new`, `svc add` and `svc mount`: the project in this folder."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine.errors import SvcError
from engine.manifest import MANIFEST, edit
from engine.manifest.load import find, load
from engine.manifest.model import Project, host_label, targets
from engine.manifest.problems import alternatives
from svc_tui.commands.options import AsJson, Commands, Yes, argument, flag, option, resource_names
from svc_tui.project import resource_starter
from svc_tui.project.scaffold import TEMPLATES, create_project
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.stdout import Answer

if TYPE_CHECKING:
    from engine.deploy.deployment import DrawnMount

DEFAULT_TEMPLATE = "notes"
_TEMPLATES, _STARTERS = list(TEMPLATES), list(resource_starter.STARTERS)
Plan = Annotated[bool, flag("Show the change without writing it.", "--plan")]


def new(
    name: Annotated[
        str,
        argument(
            "[NAME]",
            "Folder to create, or `.`; its last part is the project's name. Asks for it on a terminal.",
            show_default=False,
        ),
    ] = "",
    template: Annotated[
        str,
        option(
            "TEMPLATE", f"{alternatives(_TEMPLATES)}.", "--template", "-t", autocompletion=lambda: _TEMPLATES
        ),
    ] = DEFAULT_TEMPLATE,
) -> None:
    """Create a project from a template."""
    if not name:
        name = prompt.line("name", "Pass the name: `svc new my-app`.")
        width = max(map(len, TEMPLATES))
        for known, summary in TEMPLATES.items():
            stderr.note(f"  {known:<{width}}  {summary}")
        template = prompt.line("template", "Pass --template.", template)
    target = Path(name)
    outer = next((path for path in target.absolute().parents if (path / MANIFEST).is_file()), None)
    create_project(target if target.name else target.resolve(), template)
    if outer is not None:
        stderr.warn(f"{target} is inside the project in {outer}", "Move it, if it is a project of its own.")
    stderr.note(f"created {target} from the {template} template; next:")
    if target.name:
        stdout.line(f"  cd {shlex.quote(str(target))}")
    stdout.line("  svc")


def add(
    starter: Annotated[
        str,
        argument("STARTER", f"{alternatives(_STARTERS)}.", autocompletion=lambda: _STARTERS),
    ],
    name: Annotated[str, argument("NAME", "Name of the resource and of its folder.")],
    mount: Annotated[
        str, option("PATTERN", "Its mount (default: /NAME/*).", "--mount", "-m", show_default=False)
    ] = "",
    on: Annotated[
        str,
        option(
            "RESOURCE",
            "Resource to mount it on (default: the front).",
            show_default=False,
            autocompletion=resource_names,
        ),
    ] = "",
    public: Annotated[bool, flag("Give it an address of its own instead of a mount.", "--public")] = False,
    table: Annotated[str, option("TABLE", "Create a table that it reads and writes.", "--table", "-t")] = "",
    plan: Plan = False,
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
    diff = addition.manifest.diff
    if as_json:
        stdout.data({"written": not plan, "files": files, "path": resource.path, "diff": diff})
        return
    stdout.diff(diff)
    for file in files:
        stderr.note(f"{'would create' if plan else 'created'} {file}")
    if resource.starter.serves_files and (prefix := resource.prefix):
        stderr.note(f"requests have the path {prefix}/, so the files are in {name}{prefix}/")
    if plan:
        stderr.note("nothing was written (--plan)")
    else:
        front = load(project.root).front
        at_front = resource.pattern or (front and front.name == name)
        host = "" if at_front else f" of {host_label(project.name, name)}.localhost"
        stderr.note(f"wrote {MANIFEST}; with `svc dev`, {name} answers at {resource.path}{host}")
        if project.front is not None and front is None:
            hint = f'Add to [project] in {MANIFEST}: front = "{project.front.name}"'
            stderr.warn("the project has no address any more: two resources could be its front", hint)


mount = Commands(help="List, add and remove mounts in svc.toml.")
Parent = Annotated[str, argument("RESOURCE", "Resource that gets the mount.", autocompletion=resource_names)]
Pattern = Annotated[str, argument("PATTERN", "Path: /prefix/* or an exact /path.")]


@mount.command("list")
def list_mounts() -> Answer:
    """List the mounts of the project in this folder, in file order."""
    resources = load(find(Path.cwd())).resources
    titles = ("resource", "pattern", "target")
    mounts = [(name, each.pattern, each.target) for name in resources for each in resources[name].mounts]
    names, patterns = (max((len(row[column]) for row in mounts), default=0) for column in (0, 1))
    lines = [
        [(f"{name:<{names}}", "cyan"), (f"  {pattern:<{patterns}}  → {target}", "")]
        for name, pattern, target in mounts
    ]
    document = {"mounts": [dict(zip(titles, row, strict=True)) for row in mounts]}
    empty = "no mounts; add one with `svc mount add RESOURCE PATTERN TARGET`"
    return Answer(document, lines, fields=(titles, mounts), empty=empty)


@mount.command("add")
def add_mount(
    resource: Parent,
    pattern: Pattern,
    target: Annotated[
        str, argument("TARGET", "Resource that handles the requests.", autocompletion=resource_names)
    ],
    replace: Annotated[bool, flag("Replace an existing mount of this pattern.", "--replace")] = False,
    plan: Plan = False,
    as_json: AsJson = False,
) -> None:
    """Mount TARGET at PATTERN of RESOURCE."""
    change: edit.Change = edit.AddMount(resource, pattern, target)
    root = find(Path.cwd())
    parent = load(root).resources.get(resource) if replace else None
    if parent is not None and any(mount.pattern == pattern for mount in parent.mounts):
        change = edit.ChangeMount(resource, pattern, pattern, target)
    _edit(root, [change], plan=plan, as_json=as_json)


@mount.command("rm")
def remove_mount(resource: Parent, pattern: Pattern, plan: Plan = False, as_json: AsJson = False) -> None:
    """Remove a mount."""
    _edit(find(Path.cwd()), [edit.RemoveMount(resource, pattern)], plan=plan, as_json=as_json)


@mount.command()
def pull(plan: Plan = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Write mounts drawn at the service to svc.toml."""
    # Loaded on demand: it takes a second to import.
    from svc_tui.client.credentials import project_service
    from svc_tui.deploy import uploader

    with project_service() as (client, project):
        changes = _pulled(project, uploader.drifted_mounts(client, project))
    _edit(project.root, changes, plan=plan, as_json=as_json, yes=yes, service="has it already")


def _pulled(project: Project, drifted: "Sequence[DrawnMount]") -> list[edit.Change]:
    """Return the changes that give a project mounts drawn at the service. Raises `SvcError` for conflicts."""
    conflicts, removals, changes = [], list[edit.RemoveMount](), list[edit.Change]()
    for drawn in drifted:
        resource, pattern, target = drawn.resource, drawn.pattern, drawn.target
        mounts = targets(project.resources[resource].mounts) if resource in project.resources else {}
        local = mounts.get(pattern, "")
        unknown = [name for name in (resource, target) if name and name not in project.resources]
        moved = [each for each in removals if each.resource == resource and mounts[each.pattern] == target]
        if unknown:
            conflicts.append(f"{resource}: {drawn.drift}, which has no resource {unknown[0]}")
        elif local not in drawn.before:
            state = f"where it leads to {local}" if local else "where it was removed"
            conflicts.append(f"{resource}: {drawn.drift}, {state}")
        elif not target:
            removals.append(edit.RemoveMount(resource, pattern))
        elif local:
            changes.append(edit.ChangeMount(resource, pattern, pattern, target))
        elif moved:
            removals.remove(moved[0])
            changes.append(edit.ChangeMount(resource, moved[0].pattern, pattern, target))
        else:
            changes.append(edit.AddMount(resource, pattern, target))
    if conflicts:
        raise SvcError(
            "\n".join([f"{MANIFEST} was changed in another way; nothing was written", *conflicts]),
            f"Edit these mounts in {MANIFEST}, or drop them: svc deploy --discard-mounts",
            code="conflict",
        )
    return [*removals, *changes]


def _edit(
    root: Path,
    changes: Sequence[edit.Change],
    *,
    plan: bool,
    as_json: bool,
    yes: bool = True,
    service: str = "applies it with the next deploy",
) -> None:
    manifest_plan = edit.plan(root, changes)
    diff = manifest_plan.diff
    if not as_json:
        stdout.diff(diff)
    if diff and not plan:
        prompt.confirm(f"write this to {MANIFEST}?", yes=yes)
        edit.write(manifest_plan)
    if as_json:
        stdout.data({"written": bool(diff) and not plan, "diff": diff})
    elif not diff:
        stderr.note(f"{MANIFEST} is unchanged: its mounts are as requested")
    elif plan:
        stderr.note("nothing was written (--plan)")
    else:
        stderr.note(f"wrote {MANIFEST}; a running `svc dev` applies it at once, the service {service}")
