"""`svc capsule`."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any

from rich.text import Text
from typer.core import TyperGroup

from engine.artifact import Artifact
from engine.errors import SvcError
from engine.files.temporary import temporary_folder
from engine.lane import BuildMode
from engine.manifest.load import find, load
from engine.stepwise_json import dump_verbatim
from svc_tui.commands.options import AsJson, Commands, Yes, argument, flag, option
from svc_tui.logs import ServiceOption
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.stdout import Answer, toned
from svc_tui.terminal.units import size
from svc_tui.user_home import Home

DIFF_WIDTH = 160
"""Width of a comparison that is not printed on a terminal."""
DIFFERENT = 1
"""Exit code if the responses differ."""


class _CapsuleGroup(TyperGroup):
    """Commands of capsules; `svc capsule REQUEST` is short for `svc capsule make REQUEST`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of the command."""
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


capsule = Commands(
    cls=_CapsuleGroup,
    help="Make a file of one request, and replay it elsewhere. `svc capsule ID` means `svc capsule make ID`.",
    no_args_is_help=True,
)
File = Annotated[Path, argument("FILE", "Capsule.")]


@capsule.command()
def make(
    request: Annotated[str, argument("REQUEST", "Id of a recorded request.")],
    output: Annotated[
        Path | None, option("FILE", "File (default: REQUEST.svccap).", "--output", "-o")
    ] = None,
    with_artifacts: Annotated[
        bool, flag("Include the artifacts that handled the request.", "--with-artifacts")
    ] = False,
    no_rows: Annotated[bool, flag("Leave out the rows of the tables.", "--no-rows")] = False,
    redact: Annotated[
        list[str] | None, option("NAME", "Redact a field, key, parameter or column; repeatable.")
    ] = None,
    no_redact: Annotated[list[str] | None, option("NAME", "Do not redact this name; repeatable.")] = None,
    service: ServiceOption = None,
    yes: Yes = False,
) -> Answer:
    """Write a request to a file. It has the response, records, SQL, rows and artifacts too."""
    from svc_tui.atomic_export import write_export
    from svc_tui.capsule.collect import build_artifacts, collect, packed, read_request
    from svc_tui.capsule.container import write_container
    from svc_tui.capsule.format import content_lines, redaction_lines
    from svc_tui.capsule.redaction import Redactor

    root = find(Path.cwd())
    project = load(root)
    recorded = read_request(root, project.name, request, service)
    target = output or Path(f"{recorded.request_id}.svccap")
    if missing := [name for name in recorded.resources if name not in project.resources]:
        hint = "Check out the version of the project that handled the request."
        raise SvcError(f"resource {missing[0]} handled the request and is not in svc.toml", hint)
    cache = Home.from_environment(os.environ).cache()
    mode: BuildMode = "deploy" if recorded.deployed else "dev"
    built = asyncio.run(build_artifacts(project, recorded.resources, cache, mode, stderr.progress))
    artifacts = {name: packed(artifact) for name, artifact in built.items()}
    with temporary_folder("svc-capsule-") as folder:
        head, members = collect(
            project,
            recorded,
            artifacts,
            Redactor(redact or (), no_redact or ()),
            folder,
            include_artifacts=with_artifacts,
            include_rows=not no_rows,
        )
        with write_container(head, members) as file:
            for line in toned([*content_lines(head), *redaction_lines(head)]):
                stderr.line(Text.assemble(*line))
            prompt.confirm(f"Write {target}?", yes=yes)
            written = write_export(target, iter(lambda: file.read(1 << 20), b""))
    note = f"wrote {target} ({size(written)}); replay it with: svc capsule open {target}"
    return Answer({"file": str(target), "bytes": written, **head}, after=note)


@capsule.command("open")
def open_(file: File) -> Answer:
    """Replay a capsule, and compare the responses. It runs in a temporary folder without network.

    Exit code 1 means that they differ.
    """
    from screens.logs.exchange import compare
    from svc_tui.capsule.container import read_capsule
    from svc_tui.capsule.replay import is_same, replay_capsule

    cache = Home.from_environment(os.environ).cache()
    with temporary_folder("svc-capsule-") as folder:
        opened = read_capsule(file, folder / "capsule")
        artifacts = _artifacts_of(opened)
        project = folder / "project"
        project.mkdir()
        before, after = asyncio.run(replay_capsule(opened, artifacts, project, cache))
    same = is_same(before, after)
    width = stdout.width() if stdout.is_terminal() else DIFF_WIDTH
    return Answer(
        {"same": same, "recorded": before, "replayed": after},
        toned(compare(before, after, width)),
        after="the responses are the same" if same else "the responses differ",
        code=0 if same else DIFFERENT,
    )


def _artifacts_of(opened: Any) -> dict[str, Artifact]:
    """Return the artifacts of a capsule, or those of the project in this folder."""
    from svc_tui.capsule.collect import build_artifacts, packed, unpacked

    heads = opened.head["artifacts"]
    artifacts = {name: unpacked(opened, name) for name, head in heads.items() if head["included"]}
    missing = [name for name in heads if name not in artifacts]
    if not missing:
        return artifacts
    hint = "Make it with --with-artifacts, or change to the folder of the project."
    try:
        project = load(find(Path.cwd()))
    except SvcError as error:
        raise SvcError(f"the capsule has no artifacts, and {error.message}", hint, code="capsule") from error
    if absent := [name for name in missing if name not in project.resources]:
        raise SvcError(
            f"resource {absent[0]} is neither in the capsule nor in svc.toml", hint, code="capsule"
        )
    cache = Home.from_environment(os.environ).cache()
    mode: BuildMode = "deploy" if opened.head["deployed"] else "dev"
    built = asyncio.run(build_artifacts(project, missing, cache, mode, stderr.progress))
    for name, artifact in built.items():
        if packed(artifact).digest != heads[name]["sha256"]:
            stderr.warn(
                f"resource {name} differs from the one that answered: its sha256 is not that of the capsule",
                "Check out the same version of the project.",
            )
    return artifacts | built


@capsule.command()
def show(file: File, as_json: AsJson = False) -> None:
    """Print what a capsule contains."""
    from svc_tui.capsule.container import read_capsule
    from svc_tui.capsule.format import capsule_lines, documents

    with temporary_folder("svc-capsule-") as folder:
        opened = read_capsule(file, folder / "capsule")
        if as_json:
            stdout.json_lines([dump_verbatim(documents(opened))])
            return
        width = stdout.width() if stdout.is_terminal() else DIFF_WIDTH
        stdout.styled_lines(toned(capsule_lines(opened, width)))
