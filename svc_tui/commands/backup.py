"""`svc backup`, `restore` and `bucket`: backups in an object store, and copies of a service's storage."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from shlex import quote as quoted
from typing import Annotated, Any
from urllib.parse import quote

from doors.tables.sqlite.connections import DATABASE_NAME
from engine.bucket.copy import CopyReport
from engine.bucket.folder import FolderBucket
from engine.bucket.layout import CONTROL
from engine.deploy.gc import Finding, verify_bucket
from engine.errors import InvalidUsage, SvcError
from engine.files.temporary import temporary_folder
from engine.service.secrets import KEY_FILE, SecretsKey
from svc_tui.backup.restore import NOW_NS, VERIFY_SECONDS, Restored, restore, text, verify_tables
from svc_tui.backup.restore import verify as check
from svc_tui.backup.store import (
    BLOBS,
    CONFIRMED,
    ID_FILE,
    SERVICE,
    VALUES,
    VERIFIED,
    BackupDamaged,
    BackupError,
    BackupStore,
    OtherKey,
    parse_marks,
    parse_tables,
    values_name,
    values_times,
)
from svc_tui.client.credentials import CredentialStore, current_project, noted_client
from svc_tui.commands.options import Commands, Yes, argument, flag, option
from svc_tui.serve.storage import check_tables, copy_storage, open_bucket
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.stderr import ProgressLine
from svc_tui.terminal.stdout import Answer
from svc_tui.terminal.units import parse_moment, plural, size
from svc_tui.user_home import Home

bucket = Commands(help="Copy, back up, restore and verify a service's storage.")
Data = Annotated[Path, argument("DATA", "Data directory of a service, also of a node of a fleet.")]
New = Annotated[Path, argument("TO", "New data directory: missing or empty.")]
Backup = Annotated[Path, argument("FOLDER", "Folder of the backup.")]


@bucket.command()
def migrate(source: Data, target: New) -> Answer:
    """Copy a stopped service, or a running fleet, into a new folder."""
    return _copy(source, target)


@bucket.command("backup")
def back_up(source: Data, folder: Backup) -> Answer:
    """Copy a stopped service, or a running fleet, into a folder."""
    return _copy(source, folder)


@bucket.command("restore")
def restore_copy(folder: Backup, target: New) -> Answer:
    """Copy a backup into a new data directory."""
    return _copy(folder, target)


@bucket.command("verify")
def verify_storage(data: Data) -> Answer:
    """Read the whole storage; name each missing or corrupt object."""
    data = absolute(data)

    async def run(progress: Callable[[CopyReport], None]) -> tuple[CopyReport, list[Finding]]:
        async with open_bucket(data, "svc bucket verify") as opened:
            report, findings = await verify_bucket(opened, progress)
            report.tables, corrupt = await check_tables(data, opened)
            return report, [*findings, *(Finding("corrupt", f"tables of {name}") for name in corrupt)]

    with ProgressLine() as line:
        report, findings = asyncio.run(run(lambda report: line.show(summary(report))))
    lines = []
    for finding in findings:
        use = f"  deployment {finding.deployment}" if finding.deployment else ""
        lines.append(f"{finding.problem}  {finding.name}{use}")
    problems = f"{data} has {plural(len(findings), 'missing or corrupt object')}"
    error = SvcError(problems, "Deploy the projects again, or restore a backup.") if findings else None
    document = {**members(report), "findings": [asdict(finding) for finding in findings]}
    return Answer(document, [*lines, f"verified {summary(report)}"], error=error)


def _copy(source: Path, target: Path) -> Answer:
    source, target = absolute(source), absolute(target)
    if source == target:
        raise InvalidUsage(f"{source} is both source and target", "Name another folder.")

    async def run(progress: Callable[[CopyReport], None]) -> CopyReport:
        async with open_bucket(source, "svc bucket") as opened:
            copy = FolderBucket(target, "svc bucket")
            try:
                return await copy_storage(source, opened, copy, progress)
            finally:
                await copy.aclose()

    with ProgressLine() as line:
        report = asyncio.run(run(lambda report: line.show(summary(report))))
    document = {**members(report), "skipped_blobs": report.skipped}
    note = "logs and usage are not copied; they are in the data directories"
    return Answer(document, [f"copied {summary(report)} to {target}"], after=note)


def absolute(folder: Path) -> Path:
    return folder.expanduser().absolute()


def members(report: CopyReport) -> dict[str, int]:
    """Return a report as a document."""
    tables = {"projects_with_tables": report.tables}
    return {"values": report.values, "blobs": report.blobs, "bytes": report.size} | tables


def summary(report: CopyReport) -> str:
    """Return a report as text."""
    values = f"{report.values} values, " if report.values else ""
    tables = f", tables of {plural(report.tables, 'project')}" if report.tables else ""
    return f"{values}{report.blobs} blobs, {size(report.size)}{tables}"


backup = Commands(help="Inspect the backup of a service in an object store.")
Url = Annotated[str, argument("URL", "URL that `svc serve --backup` has.")]
Key = Annotated[Path | None, option("FILE", f"{KEY_FILE} of the service (default: that in SVC_HOME/data).")]

FULL_SECONDS = 90.0
"""How long a verification is repeated, while the service writes what a restore lacks."""


@backup.command()
def status(url: Url, key: Key = None) -> Answer:
    """Show the moments that can be restored, and their space."""
    store = _open(url, key)[0]
    objects = store.list()
    snapshots, entries = parse_tables(each.name for each in objects)
    listed = {each.name: each for each in objects}
    verified = parse_marks(VERIFIED, (each.name for each in objects))
    confirmed = parse_marks(CONFIRMED, (each.name for each in objects)).get(store.key_id)
    projects = list[dict[str, Any]]()
    for project in sorted({each.project for each in snapshots}):
        own = [listed[each.name] for of in (snapshots, entries) for each in of if each.project == project]
        row = {
            "project": project,
            "since": text(min(each.time_ns for each in snapshots if each.project == project)),
            "stored": text(int(max(each.stored for each in own).timestamp() * 1e9)),
            "verified": text(verified[project]) if project in verified else None,
            "bytes": sum(each.size for each in own),
        }
        projects.append(row)
    total = sum(each.size for each in objects)
    blobs = sum(each.size for each in objects if each.name.startswith(f"{BLOBS}/"))
    lines = [
        f"{each['project']}  since {each['since']}  last stored {each['stored']}"
        f"  verified {each['verified'] or 'never'}  {size(each['bytes'])}"
        for each in projects
    ]
    document = {"objects": len(objects), "bytes": total, "artifact_bytes": blobs, "projects": projects}
    warning = (
        "no copy of the key was confirmed: with the disk of the service, the key may be lost too",
        f"Copy {KEY_FILE} to another place, and run there: svc backup confirm-key {quoted(url)} --key COPY",
    )
    return Answer(
        {**document, "key_confirmed": text(confirmed) if confirmed else None},
        [*lines, f"{len(objects)} objects, {size(total)}, of which artifacts {size(blobs)}"],
        warnings=() if confirmed else [warning],
    )


@backup.command("confirm-key")
def confirm_key(url: Url, key: Annotated[Path, option("FILE", f"Copy of {KEY_FILE} elsewhere.")]) -> None:
    """Prove that a copy of the key opens the backup."""
    path = absolute(key).resolve()
    if (path.parent / CONTROL).exists():
        hint = f"Copy it to another place, such as another disk or a password manager: --key COPY/{KEY_FILE}"
        raise InvalidUsage(f"{path} is in the data directory of a service, and would be lost with it", hint)
    store = _open(url, key)[0]
    store.get(SERVICE)
    for time_ns in values_times(each.name for each in store.list(VALUES))[-1:]:
        store.get(values_name(time_ns))
    store.mark(CONFIRMED, store.key_id, time.time_ns())
    stdout.line(f"confirmed: {path} opens the backup at {url}")


@backup.command()
def verify(
    url: Url,
    key: Key = None,
    full: Annotated[bool, flag("Also restore the tables, and compare them with --data.", "--full")] = False,
    data: Annotated[Path | None, option("DIR", "Data of the service (default: SVC_HOME/data).")] = None,
) -> Answer:
    """Read every object; name each one that is damaged or missing."""
    store, sealed_with = _open(url, key)
    compared = list[str]()
    with ProgressLine() as line:
        objects, problems = check(store, lambda done, total: line.show(f"{done} of {total} objects"))
        if full and not problems:
            line.show("restoring the tables")
            compared, problems = _restored(store, sealed_with, data)
    hint = "Restore what is named from a copy of the store. Later snapshots of tables do not need it."
    error = SvcError(f"the backup at {url} has {plural(len(problems), 'problem')}", hint)
    equal = f"; the tables of {', '.join(compared)} equal a restore" if compared else ""
    lines = [*problems, f"verified {plural(objects, 'object')}{equal}"]
    document = {"objects": objects, "compared": compared, "problems": problems}
    return Answer(document, lines, error=error if problems else None)


def _restored(store: BackupStore, key: SecretsKey, folder: Path | None) -> tuple[list[str], list[str]]:
    """Return the projects whose tables a restore has as the service, and what it lacks or has otherwise."""
    data = absolute(folder or Home.from_environment(os.environ).root / "data")
    try:
        own = str(json.loads((data / ID_FILE).read_text())["service"])
    except (OSError, ValueError, KeyError, TypeError):
        own = ""
    if own.encode() != store.get(SERVICE):
        if folder:
            raise InvalidUsage(f"{data} is not the service of this backup", "Pass its folder: --data DIR")
        stderr.note(f"{data} is not the service of this backup: its tables are restored, but not compared")
        with temporary_folder("svc-verify-") as folder:
            tables = asyncio.run(restore(store, key, folder / "data")).tables
            return [], [f"{each.project}: {each.problem}" for each in tables if each.problem]
    compared, problems = [], []
    for path in sorted(data.glob(f"projects/*/tables/{DATABASE_NAME}")):
        end = time.monotonic() + FULL_SECONDS
        try:
            while (problem := verify_tables(store, path, VERIFY_SECONDS)) and time.monotonic() < end:
                pass
        except BackupDamaged as error:
            problem = error.message
        problems += [problem] if problem else []
        compared += [] if problem else [path.parent.parent.name]
    return compared, problems


def restore_command(
    source: Annotated[str, option("URL", "URL of the backup.", "--from")] = "",
    data: Annotated[Path | None, option("DIR", "New data directory: missing or empty.")] = None,
    key: Key = None,
    at: Annotated[
        str, option("TIME", "Restore as of 2026-11-28T14:02 or 14:02 of today (UTC), or an age: 10m.")
    ] = "",
    before_deployment: Annotated[str, option("ID", "Restore as of the moment before a deployment.")] = "",
    project: Annotated[list[str] | None, option("NAME", "Restore no other project; repeatable.")] = None,
    service: Annotated[bool, flag("Replace the tables of a live --project.", "--service")] = False,
    yes: Yes = False,
) -> Answer:
    """Restore a service from its backup: accounts, secrets, deployments and tables."""
    if at and before_deployment:
        raise InvalidUsage("--at and --before-deployment exclude each other", "Pass one of them.")
    time_ns = parse_moment(at) if at else NOW_NS
    if service:
        if source or data or key or not project or len(project) > 1:
            raise InvalidUsage(
                "with --service, one --project is restored, without --from, --key and --data",
                "Pass --service --project NAME; the service has the URL and the key of its backup.",
            )
        return _restore_live(project[0], at and text(time_ns, exact=True), before_deployment, yes=yes)
    if not source or data is None:
        hint = "Pass --from URL --data DIR, or --service --project NAME for the tables of a live project."
        raise InvalidUsage("--from or --data is missing", hint)
    store, sealed_with = _open(source, key)
    with ProgressLine() as line:

        def progress(report: CopyReport, name: str) -> None:
            line.show(f"{summary(report)}, tables of {name}" if name else summary(report))

        moment = time_ns, before_deployment
        try:
            restored = asyncio.run(
                restore(store, sealed_with, absolute(data), *moment, project or (), progress)
            )
        except KeyboardInterrupt:
            stderr.note("canceled; nothing was restored")
            raise
    tables = [asdict(each) for each in restored.tables]
    for each in tables:
        last_ns, _ = each.pop("last_ns"), each.pop("sequence")
        each["time"] = text(last_ns) if last_ns else None
    findings = [asdict(each) for each in restored.findings]
    document = {"time": text(restored.values_ns), "blobs": restored.report.blobs, "tables": tables}
    return Answer({**document, "findings": findings}, _restored_lines(restored, data))


def _restored_lines(restored: Restored, data: Path) -> Iterator[str]:
    """Yield lines, and write notes of what was not restored."""
    yield f"deployments and accounts as of {text(restored.values_ns)}"
    for each in restored.tables:
        if each.last_ns:
            count = plural(each.transactions, "transaction")
            yield f"{each.project}  tables as of {text(each.last_ns)}, {count} after a snapshot"
        if each.problem:
            stderr.note(f"{each.project}: {each.problem}")
    for finding in restored.findings:
        owner = finding.deployment or "no deployment"
        stderr.note(f"{finding.name} of {owner} is {finding.problem}; deploy again")
    yield f"restored {summary(restored.report)} to {data}"


def _restore_live(project: str, at: str, deployment: str, *, yes: bool) -> Answer:
    with noted_client(CredentialStore.from_environment(os.environ).get(current_project())) as client:
        moment = f"before the deployment {deployment}" if deployment else f"as of {at or 'now'}"
        if not yes:
            question = (
                f"replace the tables of {project} at {client.url} by those {moment}, and begin their history"
            )
            question += f" (`svc tables blame`, `at`) again; type {project}"
            if prompt.line(question, "Pass --yes.") != project:
                raise SvcError("canceled; nothing was changed", "Type the project's name, or pass --yes.")
        path = f"/v1/projects/{quote(project, safe='')}/restore"

        def cancel(*_: object) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            asyncio.run(client.cancelable("DELETE", path, None))
            stderr.note("canceling, unless the tables are being replaced")

        before = signal.signal(signal.SIGINT, cancel)
        try:
            restored = client.call("POST", path, {"at": at, "before_deployment": deployment})
        finally:
            signal.signal(signal.SIGINT, before)
    return Answer(restored, _live_lines(project, restored))


def _live_lines(project: str, restored: dict[str, Any]) -> Iterator[str]:
    count = plural(restored["transactions"], "transaction")
    yield f"{project}  tables as of {restored['time']}, {count} after a snapshot"
    if restored["migrations"]:
        stderr.note(f"not applied any more, until the next deploy: {', '.join(restored['migrations'])}")
    yield f"to go back: svc restore --service --project {project} --at {restored['before']}"


def _open(url: str, key: Path | None) -> tuple[BackupStore, SecretsKey]:
    """Return the store and its key. Raises `OtherKey`, which each object of the store would raise."""
    path = (key or Home.from_environment(os.environ).root / "data" / KEY_FILE).expanduser()
    try:
        opened = SecretsKey.parse(path.read_text("ascii"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a key"
        hint = f"Pass the {KEY_FILE} of the service that was backed up: --key FILE."
        raise InvalidUsage(f"the key {path} cannot be read: {reason}", hint) from error
    store = BackupStore(url, opened)
    try:
        store.get(SERVICE)
    except OtherKey:
        raise
    except BackupDamaged:  # The command names what it needs and cannot read.
        if not values_times(each.name for each in store.list(VALUES)):
            raise BackupError(f"{url} has no backup of a service", "Check the URL.") from None
    return store, opened
