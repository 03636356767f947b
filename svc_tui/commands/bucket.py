"""`svc bucket`: copies and checks of a service's storage."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from engine.bucket.copy import CopyReport, copy_bucket
from engine.bucket.layout import VERSION
from engine.deploy.verify import Finding, verify_bucket
from engine.errors import InvalidUsage, SvcError
from svc_tui.commands.options import (
    AsJson,
    BucketAuthority,
    BucketCertificate,
    BucketCredentials,
    BucketKey,
)
from svc_tui.serve.bucket_location import (
    BucketLocation,
    ClusterKeys,
    FolderLocation,
    open_bucket,
    open_exclusively,
    parse_location,
)
from svc_tui.serve.table_copies import check_tables, copy_tables, has_tables
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stderr import ProgressLine
from svc_tui.terminal.units import plural, size

_LOCATION_HELP = "Data directory, folder of a fleet's node, or nats://HOST:PORT,…/NAME."
bucket = typer.Typer(help="Copy, back up, restore and verify a service's storage.")
BucketArgument = Annotated[str, typer.Argument(metavar="BUCKET", help=_LOCATION_HELP)]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the backup.")]


@bucket.command()
def migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help=_LOCATION_HELP)],
    target: Annotated[str, typer.Argument(metavar="TO", help=f"{_LOCATION_HELP} Empty.")],
    creds: BucketCredentials = None,
    ca: BucketAuthority = None,
    cert: BucketCertificate = None,
    key: BucketKey = None,
    as_json: AsJson = False,
) -> None:
    """Copy a bucket into an empty one of either kind. Stop the service first."""
    keys = ClusterKeys(credentials=creds, authority=ca, certificate=cert, key=key)
    _copy(parse_location(source, keys), parse_location(target, keys), as_json, running=False)


@bucket.command()
def backup(
    location: BucketArgument,
    folder: Folder,
    creds: BucketCredentials = None,
    ca: BucketAuthority = None,
    cert: BucketCertificate = None,
    key: BucketKey = None,
    as_json: AsJson = False,
) -> None:
    """Copy a bucket into a folder. The service may run if the bucket is on a cluster."""
    keys = ClusterKeys(credentials=creds, authority=ca, certificate=cert, key=key)
    _copy(
        parse_location(location, keys), FolderLocation(folder.expanduser().absolute()), as_json, running=True
    )


@bucket.command()
def restore(
    folder: Folder,
    location: BucketArgument,
    creds: BucketCredentials = None,
    ca: BucketAuthority = None,
    cert: BucketCertificate = None,
    key: BucketKey = None,
    as_json: AsJson = False,
) -> None:
    """Copy a backup into an empty bucket."""
    keys = ClusterKeys(credentials=creds, authority=ca, certificate=cert, key=key)
    _copy(
        FolderLocation(folder.expanduser().absolute()), parse_location(location, keys), as_json, running=False
    )


@bucket.command()
def verify(
    location: BucketArgument,
    creds: BucketCredentials = None,
    ca: BucketAuthority = None,
    cert: BucketCertificate = None,
    key: BucketKey = None,
    as_json: AsJson = False,
) -> None:
    """Read a whole bucket; name each missing or corrupt object."""
    keys = ClusterKeys(credentials=creds, authority=ca, certificate=cert, key=key)
    existing = _existing(parse_location(location, keys))

    async def run(progress: Callable[[CopyReport], None]) -> tuple[CopyReport, list[Finding]]:
        async with open_bucket(existing, "svc bucket verify") as opened:
            report, findings = await verify_bucket(opened, progress)
            report.tables, corrupt = await check_tables(existing, opened)
            return report, [*findings, *(Finding("corrupt", f"tables of {name}") for name in corrupt)]

    with ProgressLine() as line:
        report, findings = asyncio.run(run(lambda report: line.show(_summary(report))))
    if as_json:
        stdout.data({**_members(report), "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            use = f"  deployment {finding.deployment}" if finding.deployment else ""
            stdout.line(f"{finding.problem}  {finding.name}{use}")
        stdout.line(f"verified {_summary(report)}")
    if findings:
        raise SvcError(
            f"{existing} has {plural(len(findings), 'missing or corrupt object')}",
            "Deploy the projects again, or restore a backup.",
        )


def _copy(source: BucketLocation, target: BucketLocation, as_json: bool, *, running: bool) -> None:
    """Copy a bucket. With `running`, a service may use the source meanwhile."""
    if source == target:
        raise InvalidUsage(f"{source} is both source and target", "Name another bucket.")
    _existing(source)
    errors: list[SvcError] = []

    async def run(progress: Callable[[CopyReport], None]) -> CopyReport:
        program = "svc bucket"
        first = open_bucket(source, program) if running else open_exclusively(source, program, errors.append)
        async with first as origin, open_exclusively(target, program, errors.append) as copy:
            report = CopyReport()

            def on_copied() -> None:
                report.tables += 1
                progress(report)

            await copy_tables(source, origin, target, copy, on_copied)
            copied = await copy_bucket(origin, copy, progress)
            copied.tables = report.tables
            return copied

    with ProgressLine() as line:
        report = asyncio.run(run(lambda report: line.show(_summary(report))))
    if errors:
        raise errors[0]
    if as_json:
        stdout.data({**_members(report), "skipped_blobs": report.skipped})
        return
    stdout.line(f"copied {_summary(report)} to {target}")
    if has_tables(source) and has_tables(target):
        stderr.note("logs and usage are not copied; they are in the data directories")
    else:
        stderr.note("tables, logs and usage are not copied; they are in the service's data directory")


def _existing(location: BucketLocation) -> BucketLocation:
    if isinstance(location, FolderLocation) and not (location.folder / VERSION).is_file():
        raise SvcError(f"{location} is not a bucket", "Pass the data directory of a service, or a backup.")
    return location


def _members(report: CopyReport) -> dict[str, int]:
    return {
        "values": report.values,
        "blobs": report.blobs,
        "bytes": report.size,
        "projects_with_tables": report.tables,
    }


def _summary(report: CopyReport) -> str:
    values = f"{report.values} values, " if report.values else ""
    tables = f", tables of {plural(report.tables, 'project')}" if report.tables else ""
    return f"{values}{report.blobs} blobs, {size(report.size)}{tables}"
