"""`svc files`: the files of the project."""

from pathlib import Path
from typing import Annotated, Any

import typer

from engine.errors import InvalidUsage
from engine.static_files.content_type import content_type
from svc_tui.commands.options import Commands, argument, flag, option
from svc_tui.commands.tables import open_tables, opened, save, service_option, sized_chunks
from svc_tui.deploy.format import local_time
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stdout import Answer
from svc_tui.terminal.units import plural, size

files = Commands(help="List, read, store and remove the project's files.")
files.callback()(service_option)
Prefix = Annotated[str, argument("[PREFIX]", "Beginning of the keys (default: all).")]
Key = Annotated[str, argument("KEY", "Key of the file.")]


@files.command("ls")
def list_files(
    context: typer.Context,
    prefix: Prefix = "",
    recursive: Annotated[bool, flag("List all keys, not one level.", "--recursive", "-r")] = False,
) -> Answer:
    """List files of one level, or all with --recursive. Keys have levels as paths do, with slashes."""
    found: list[Any] = []
    prefixes: list[str] = []
    asked: dict[str, str | None] = {"prefix": prefix, "delimiter": "" if recursive else "/", "cursor": ""}
    with open_tables(context) as project:
        while asked["cursor"] is not None:
            page = project.get("files", **asked)
            found += page["files"]
            prefixes += page["prefixes"]
            asked["cursor"] = page["cursor"]
    rows: list[list[stdout.Cell]] = [[("", ""), ("", ""), ("", ""), (each, "bold")] for each in prefixes]
    for each in found:
        kind, modified = each["fields"].get("content-type", ""), local_time(each["modified"])
        rows.append([(size(each["size"]), ""), (modified, "dim"), (kind, "dim"), (each["key"], "")])
    lines = stdout.table(["size", "modified", "type", "key"], rows)
    return Answer({"files": found, "prefixes": prefixes}, lines)


@files.command()
def get(
    context: typer.Context,
    key: Key,
    file: Annotated[str, argument("[FILE]", "File (default: stdout).")] = "-",
) -> None:
    """Read a file."""
    with (
        open_tables(context) as project,
        stderr.ProgressLine() as progress,
        project.client.download(project.path + "files/content", params={"key": key}) as chunks,
    ):
        written = save(chunks, file, progress, "reading")
    if written is not None:
        stderr.note(f"read {size(written)} into {file}")


@files.command()
def put(
    context: typer.Context,
    file: Annotated[str, argument("FILE", "File, or - for stdin.")],
    key: Annotated[str, argument("[KEY]", "Key (default: the name of the file).")] = "",
    type: Annotated[str, option("TYPE", "Content type (default: that of the name).", "--type")] = "",
) -> Answer:
    """Store a file. It replaces the one with its key."""
    if file == "-" and not key:
        raise InvalidUsage("the file needs a key", "svc files put - KEY")
    key = key or Path(file).name
    with opened(file) as source, open_tables(context) as project, stderr.ProgressLine() as progress:
        chunks = sized_chunks(source, progress.show)
        params = {"key": key, "type": type or content_type(key)}
        stored = project.client.call("PUT", project.path + "files/content", params=params, content=chunks)
    return Answer(stored, [f"{key}  {size(stored['size'])}"])


@files.command()
def rm(context: typer.Context, keys: Annotated[list[str], argument("KEY…", "Keys of files.")]) -> int:
    """Remove files."""
    with open_tables(context) as project:
        path = project.path + "files/content"
        answers = {key: project.client.call("DELETE", path, params={"key": key}) for key in keys}
    missing = [key for key, answer in answers.items() if not answer["removed"]]
    for key in missing:
        stderr.warn(f"there is no file {key!r}", "svc files ls lists the files.")
    return 1 if missing else 0


@files.command()
def du(context: typer.Context, prefix: Prefix = "") -> Answer:
    """Show how many files there are, and their bytes."""
    with open_tables(context) as project:
        usage = project.get("files/usage", prefix=prefix)
    limit = f" of {size(usage['limit'])}" if usage["limit"] is not None else ""
    return Answer(usage, [f"{plural(usage['files'], 'file')}, {size(usage['bytes'])}{limit}"])
