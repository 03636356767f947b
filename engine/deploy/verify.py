"""Check of a bucket: its blobs, and all objects that its deployments refer to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.bucket.copy import CopyReport
from engine.bucket.protocols import BlobCorrupt, BlobMissing, Bucket, Digest
from engine.deploy import package_store
from engine.deploy.deployment import LIVE, RECORDS, DeploymentHistory, RecordError, decode
from engine.deploy.package_store import PackageError

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
