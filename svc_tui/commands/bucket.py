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
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stderr import ProgressLine
from svc_tui.terminal.units import plural, size

_PLACE = "Data directory, folder of a node, or nats://HOST:PORT,…/NAME."
bucket = typer.Typer(help="Copy, back up, restore and verify a service's storage.", no_args_is_help=True)
Place = Annotated[str, typer.Argument(metavar="BUCKET", help=_PLACE)]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the backup.")]


@bucket.command()
def migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help=_PLACE)],
    target: Annotated[str, typer.Argument(metavar="TO", help=f"{_PLACE} Empty.")],
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
    place: Place,
    folder: Folder,
    creds: BucketCredentials = None,
    ca: BucketAuthority = None,
    cert: BucketCertificate = None,
    key: BucketKey = None,
    as_json: AsJson = False,
) -> None:
    """Copy a bucket into a folder. The service may run if the bucket is on a cluster."""
    keys = ClusterKeys(credentials=creds, authority=ca, certificate=cert, key=key)
    _copy(parse_location(place, keys), FolderLocation(folder.expanduser().absolute()), as_json, running=True)


@bucket.command()
def restore(
    folder: Folder,
    place: Place,
    creds: BucketCredentials = None,
    ca: BucketAuthority = None,
    cert: BucketCertificate = None,
    key: BucketKey = None,
    as_json: AsJson = False,
) -> None:
    """Copy a backup into an empty bucket."""
    keys = ClusterKeys(credentials=creds, authority=ca, certificate=cert, key=key)
    _copy(FolderLocation(folder.expanduser().absolute()), parse_location(place, keys), as_json, running=False)


@bucket.command()
def verify(
    place: Place,
    creds: BucketCredentials = None,
    ca: BucketAuthority = None,
    cert: BucketCertificate = None,
    key: BucketKey = None,
    as_json: AsJson = False,
) -> None:
    """Read a whole bucket; name each missing or corrupt object."""
    keys = ClusterKeys(credentials=creds, authority=ca, certificate=cert, key=key)
    location = _existing(parse_location(place, keys))

    async def run(progress: Callable[[CopyReport], None]) -> tuple[CopyReport, list[Finding]]:
        async with open_bucket(location, "svc bucket verify") as opened:
            return await verify_bucket(opened, progress)

    with ProgressLine() as line:
        report, findings = asyncio.run(run(lambda report: line.show(_shown(report))))
    if as_json:
        members = {"values": report.values, "blobs": report.blobs, "bytes": report.size}
        stdout.data({**members, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            use = f"  deployment {finding.deployment}" if finding.deployment else ""
            stdout.line(f"{finding.problem}  {finding.name}{use}")
        stdout.line(f"verified {_shown(report)}")
    if findings:
        raise SvcError(
            f"{location} has {plural(len(findings), 'missing or corrupt object')}",
            "Deploy the projects again, or restore a backup.",
        )


def _copy(source: BucketLocation, target: BucketLocation, as_json: bool, *, running: bool) -> None:
    """Copy a bucket. With `running`, a service may use the source meanwhile."""
    if source == target:
        raise InvalidUsage(f"{source} is both source and target", "Name another bucket.")
    _existing(source)
    lost: list[SvcError] = []

    async def run(progress: Callable[[CopyReport], None]) -> CopyReport:
        program = "svc bucket"
        first = open_bucket(source, program) if running else open_exclusively(source, program, lost.append)
        async with first as origin, open_exclusively(target, program, lost.append) as copy:
            return await copy_bucket(origin, copy, progress)

    with ProgressLine() as line:
        report = asyncio.run(run(lambda report: line.show(_shown(report))))
    if lost:
        raise lost[0]
    if as_json:
        members = {"values": report.values, "blobs": report.blobs, "bytes": report.size}
        stdout.data({**members, "skipped_blobs": report.skipped})
    else:
        stdout.line(f"copied {_shown(report)} to {target}")
        stderr.note("tables and logs are not part of a bucket; they are in the service's data directory")


def _existing(location: BucketLocation) -> BucketLocation:
    if isinstance(location, FolderLocation) and not (location.folder / VERSION).is_file():
        raise SvcError(f"{location} is not a bucket", "Pass the data directory of a service, or a backup.")
    return location


def _shown(report: CopyReport) -> str:
    values = f"{report.values} values, " if report.values else ""
    return f"{values}{report.blobs} blobs, {size(report.size)}"
