"""Garbage collection: removes blobs, unpacked packages and machine code that no deployment needs.

A deploy in progress has blobs that no record names yet. They were used recently, so anything used within the
grace period stays. The grace period must be longer than a deploy takes.

A service collects daily. The bucket stores the time of the last run, so restarts neither repeat nor delay it.
One node of a fleet collects. The others then remove files of their own.

A check of a bucket finds what deployments need and is missing or corrupt.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.bucket.blobs import Blobs
from engine.bucket.copy import CopyReport
from engine.bucket.protocols import BlobCorrupt, BlobMissing, Bucket, Digest, KeyValue
from engine.deploy import package_store
from engine.deploy.deployment import LIVE, RECORDS, DeploymentHistory, RecordError, decode
from engine.deploy.package_store import PackageError
from engine.errors import SvcError
from engine.wasm.compile.code_cache import evict_code

CHECK_SECONDS = 3600.0
DAY_NS = GRACE_NS = 24 * 3600 * 10**9
_LAST_RUN_KEY = "swept"


class GarbageError(SvcError):
    """Garbage cannot be determined."""

    code = "garbage"


@dataclass(frozen=True, slots=True)
class GcReport:
    """Removed objects: blobs and their bytes, abandoned uploads, unpacked packages, files of machine code."""

    blobs: int
    bytes: int
    uploads: int
    unpacked: int = 0
    machine_code: int = 0


async def collect_garbage(
    bucket: Bucket,
    now_ns: int,
    *,
    unpacked: Path | None = None,
    cache: Path | None = None,
    count_only: bool = False,
    files_only: bool = False,
    referenced: Callable[[], Awaitable[set[Digest]]] | None = None,
) -> GcReport:
    """Remove objects that no deployment needs and that were not used within the grace period.

    `referenced` returns the blobs that data of projects refers to.

    Times are Unix epoch, ns. `unpacked` is the folder of unpacked packages, `cache` that of the compiler;
    `count_only` removes nothing, `files_only` no blobs.
    Raises `GarbageError` and removes nothing if the needs of a deployment are unknown.
    """
    needed = await needed_blobs(bucket)
    before = now_ns - GRACE_NS
    blobs = size = folders = 0
    if not files_only:
        stored = needed | await referenced() if referenced is not None else needed
        blobs, size = await remove_unused(bucket.blobs, stored, before, count_only=count_only)
    uploads = await bucket.blobs.delete_uploads(before, count_only=count_only)
    if unpacked is not None:
        folders = await package_store.evict_unpacked(unpacked, needed, before, count_only=count_only)
    code = 0
    if cache is not None:
        code = await asyncio.to_thread(evict_code, cache, needed, before, count_only=count_only)
    return GcReport(blobs, size, uploads, folders, code)


async def remove_unused(
    blobs: Blobs, needed: set[Digest], before_ns: int, *, count_only: bool = False
) -> tuple[int, int]:
    """Remove, or only count, blobs that are not needed and were last used before a time.

    Return their number and bytes. A blob that is stored again meanwhile stays.
    """
    count = size = 0
    async for blob in blobs.list():
        unused = blob.digest not in needed and blob.used_ns < before_ns
        if unused and (count_only or await blobs.delete(blob.digest, before_ns)):
            count += 1
            size += blob.size
    return count, size


async def needed_blobs(bucket: Bucket) -> set[Digest]:
    """Return the blobs that the deployments of a bucket need. Raises `GarbageError`."""
    needed: set[Digest] = set()
    for deployment in await DeploymentHistory(bucket).all():
        for part in deployment.resources.values():
            if part.package in needed:
                continue
            try:
                needed |= (await package_store.load(bucket.blobs, part.package)).digests | {part.package}
            except SvcError as error:
                message = (
                    f"nothing was removed: the packages of deployment {deployment.id} of {deployment.project}"
                    " cannot be read: "
                )
                raise GarbageError(
                    message + error.message,
                    f"Deploy {deployment.project} again from the same sources.",
                    public_message=message + error.public_message,
                ) from error
    return needed


async def run_gc_daily(
    cells: KeyValue,
    collect: Callable[..., Awaitable[GcReport]],
    log: Callable[[str, str], None],
    *,
    now_ns: Callable[[], int] = time.time_ns,
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Check every hour, first after an hour, and collect a day after the last run; never returns.

    `collect` gets `files_only`: only uploads and other files of this machine are to be removed. `log` takes a
    level and a line. `now_ns` returns the Unix time in ns; `wait` takes seconds.
    """
    known: bytes | None = None
    while True:
        await wait(CHECK_SECONDS)
        try:
            cell, now = await cells.get(_LAST_RUN_KEY), now_ns()
            run, revision = (cell.value, cell.revision) if cell is not None else (b"", None)
            new = str(now).encode()
            # A last run in the future is ignored: the clock was changed.
            due = not (run.isdigit() and 0 <= now - int(run) < DAY_NS)
            claimed = due and isinstance(await cells.cas(_LAST_RUN_KEY, new, revision), int)
            other_node = not claimed and known not in (None, run)
            known = new if claimed else run
            if not claimed and not other_node:
                continue
            report = await collect(files_only=other_node)
        except SvcError as error:
            log("warning", f"{error.message} ({error.hint})" if error.hint else error.message)
            continue
        if report != GcReport(0, 0, 0):
            log(
                "info",
                f"removed what no deployment needs: blobs {report.blobs} ({report.bytes} bytes),"
                f" unpacked packages {report.unpacked}, files of machine code {report.machine_code},"
                f" abandoned uploads {report.uploads}",
            )


Problem = Literal["missing", "corrupt"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A missing or corrupt object: `blob sha256:<digest>`, or the key of a value.

    `deployment` is one that needs it, as PROJECT/ID; empty for a blob that none needs.
    """

    problem: Problem
    name: str
    deployment: str = ""


async def verify_bucket(
    bucket: Bucket, progress: Callable[[CopyReport], None]
) -> tuple[CopyReport, list[Finding]]:
    """Read a whole bucket; return its counts, and what is missing or corrupt, sorted by object.

    `progress` is called after each blob. A service may change the bucket meanwhile.
    """
    records = {value.key: value.value for value in await bucket.kv.list(RECORDS)}
    live = {value.key for value in await bucket.kv.list(LIVE)}
    report, corrupt = CopyReport(values=len(await bucket.kv.list(""))), set[Digest]()
    async for info in bucket.blobs.list():
        try:
            async for chunk in bucket.blobs.read(info.digest):
                report.size += len(chunk)
            report.blobs += 1
        except BlobMissing:
            continue
        except BlobCorrupt:
            corrupt.add(info.digest)
        progress(report)
    present = {info.digest async for info in bucket.blobs.list()}
    contents: dict[Digest, frozenset[Digest]] = {}
    findings: dict[str, Finding] = {}

    def add(problem: Problem, name: str, deployment: str = "") -> None:
        findings.setdefault(name, Finding(problem, name, deployment))

    async def check(package: Digest, deployment: str) -> None:
        if package not in contents:
            contents[package] = frozenset({package})
            if package in present and package not in corrupt:
                try:
                    contents[package] |= (await package_store.load(bucket.blobs, package)).digests
                except PackageError:
                    add("corrupt", f"blob sha256:{package}", deployment)
        for digest in contents[package]:
            if digest in corrupt:
                add("corrupt", f"blob sha256:{digest}", deployment)
            elif digest not in present:
                add("missing", f"blob sha256:{digest}", deployment)

    for key, value in records.items():
        try:
            deployment = decode(value)
        except RecordError:
            add("corrupt", key)
            continue
        for part in deployment.resources.values():
            await check(part.package, f"{deployment.project}/{deployment.id}")
    history = DeploymentHistory(bucket)
    for key in live:
        try:
            current = await history.live(key.removeprefix(LIVE))
        except RecordError:
            add("corrupt", key)
            continue
        record = f"{RECORDS}{current.project}/{current.deployment}" if current is not None else ""
        if record and await bucket.kv.get(record) is None:
            add("missing", record, record.removeprefix(RECORDS))
    for digest in corrupt:
        add("corrupt", f"blob sha256:{digest}")
    return report, [finding for _, finding in sorted(findings.items())]
