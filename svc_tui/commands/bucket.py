"""`svc bucket`: copies and checks of a service's storage."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from engine.bucket.copy import CopyReport
from engine.bucket.folder import FolderBucket
from engine.deploy.gc import Finding, verify_bucket
from engine.errors import InvalidUsage, SvcError
from svc_tui.commands.options import Commands, argument
from svc_tui.serve.storage import check_tables, copy_storage, open_bucket
from svc_tui.terminal.stderr import ProgressLine
from svc_tui.terminal.stdout import Answer
from svc_tui.terminal.units import plural, size

bucket = Commands(help="Copy, back up, restore and verify a service's storage.")
Data = Annotated[Path, argument("DATA", "Data directory of a service, also of a node of a fleet.")]
New = Annotated[Path, argument("TO", "New data directory: missing or empty.")]
Backup = Annotated[Path, argument("FOLDER", "Folder of the backup.")]


@bucket.command()
def migrate(source: Data, target: New) -> Answer:
    """Copy a stopped service, or a running fleet, into a new folder."""
    return _copy(source, target)


@bucket.command()
def backup(source: Data, folder: Backup) -> Answer:
    """Copy a stopped service, or a running fleet, into a folder."""
    return _copy(source, folder)


@bucket.command()
def restore(folder: Backup, target: New) -> Answer:
    """Copy a backup into a new data directory."""
    return _copy(folder, target)


@bucket.command()
def verify(data: Data) -> Answer:
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
    return {
        "values": report.values,
        "blobs": report.blobs,
        "bytes": report.size,
        "projects_with_tables": report.tables,
    }


def summary(report: CopyReport) -> str:
    """Return a report as text."""
    values = f"{report.values} values, " if report.values else ""
    tables = f", tables of {plural(report.tables, 'project')}" if report.tables else ""
    return f"{values}{report.blobs} blobs, {size(report.size)}{tables}"
