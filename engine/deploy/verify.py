"""Check of a bucket: its blobs, and all objects that its deployments refer to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.bucket.copy import CopyReport, verify_blobs
from engine.bucket.protocols import Bucket, Digest
from engine.deploy import package_store
from engine.deploy.deployment import LIVE, RECORDS, Deployment, DeploymentHistory, RecordError, decode
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


class _Verification:
    """Collects findings, one for each object."""

    def __init__(self, bucket: Bucket, present: set[Digest], corrupt: set[Digest]) -> None:
        self._bucket, self._present, self._corrupt = bucket, present, corrupt
        self._contents: dict[Digest, frozenset[Digest]] = {}
        self._findings: dict[str, Finding] = {}

    def add(self, problem: Problem, name: str, deployment: str = "") -> None:
        """Add a finding unless the object has one."""
        self._findings.setdefault(name, Finding(problem, name, deployment))

    def findings(self) -> list[Finding]:
        """Return the findings, sorted by object."""
        for digest in self._corrupt:
            self.add("corrupt", _blob(digest))
        return [finding for _, finding in sorted(self._findings.items())]

    async def deployment(self, deployment: Deployment) -> None:
        name = f"{deployment.project}/{deployment.id}"
        for part in deployment.resources.values():
            for digest in {part.package} | await self._files(part.package, name):
                if digest in self._corrupt:
                    self.add("corrupt", _blob(digest), name)
                elif digest not in self._present:
                    self.add("missing", _blob(digest), name)

    async def _files(self, package: Digest, deployment: str) -> frozenset[Digest]:
        """Return the files of a package, none if it cannot be read."""
        if package not in self._present or package in self._corrupt:
            return frozenset()
        if package not in self._contents:
            try:
                files = (await package_store.load(self._bucket.blobs, package)).digests
            except PackageError:
                self.add("corrupt", _blob(package), deployment)
                files = frozenset()
            self._contents[package] = files
        return self._contents[package]


def _blob(digest: Digest) -> str:
    return f"blob sha256:{digest}"


async def verify_bucket(
    bucket: Bucket, progress: Callable[[CopyReport], None]
) -> tuple[CopyReport, list[Finding]]:
    """Read a whole bucket; return its counts, and what is missing or corrupt.

    `progress` is called after each blob. A service may change the bucket meanwhile.
    """
    records = {value.key: value.value for value in await bucket.kv.list(RECORDS)}
    live = {value.key for value in await bucket.kv.list(LIVE)}
    report, corrupt = await verify_blobs(bucket, progress)
    check = _Verification(bucket, {info.digest async for info in bucket.blobs.list()}, set(corrupt))
    for key, value in records.items():
        try:
            await check.deployment(decode(value))
        except RecordError:
            check.add("corrupt", key)
    history = DeploymentHistory(bucket)
    for key in live:
        try:
            current = await history.live(key.removeprefix(LIVE))
        except RecordError:
            check.add("corrupt", key)
            continue
        record = f"{RECORDS}{current.project}/{current.deployment}" if current is not None else ""
        if record and await bucket.kv.get(record) is None:
            check.add("missing", record, record.removeprefix(RECORDS))
    return report, check.findings()
