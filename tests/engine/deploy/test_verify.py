"""Check of a bucket against its deployments."""

from pathlib import Path

from engine.bucket.copy import CopyReport
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Digest
from engine.deploy.deployment import DeploymentHistory
from engine.deploy.gc import Finding, verify_bucket
from engine.deploy.package_store import load
from tests.engine.deploy.packing import component_artifact, deployment, opened
from tests.support.blobs import put

FUTURE = 1 << 62


def ignore(report: CopyReport) -> None: ...


def test_verify_names_each_missing_and_corrupt_object(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        packages: list[Digest] = []
        for name in ("one", "two", "three"):
            artifact = component_artifact(tmp_path, name, script=name)
            deployed = await deployment(bucket, artifact, f"2026-{name}", project=name)
            await history.add(deployed)
            await history.activate(name, deployed.id, at_ns=1, by="ann", revision=None)
            packages.append(deployed.resources["web"].package)
        unused = await put(bucket.blobs, b"unused")
        report, findings = await verify_bucket(bucket, ignore)
        assert (report.blobs, findings) == (10, [])

        for digest in (unused, packages[0]):
            path = bucket.root / "blobs" / digest
            path.chmod(0o644)
            path.write_bytes(b"bad")
        script = (await load(bucket.blobs, packages[1])).files["script.js"].digest
        assert await bucket.blobs.delete(script, FUTURE)
        (record,) = await bucket.kv.list("deployments/three/")
        await bucket.kv.cas(record.key, None, record.revision)
        await bucket.kv.cas("deployments/four/1", b"{", None)
        await bucket.kv.cas("live/five", b"[]", None)
        _, findings = await verify_bucket(bucket, ignore)
        assert set(findings) == {
            Finding("corrupt", f"blob sha256:{packages[0]}", "one/2026-one"),
            Finding("missing", f"blob sha256:{script}", "two/2026-two"),
            Finding("missing", record.key, "three/2026-three"),
            Finding("corrupt", "deployments/four/1"),
            Finding("corrupt", "live/five"),
            Finding("corrupt", f"blob sha256:{unused}"),
        }
        assert len(findings) == 6

    opened(tmp_path / "bucket", scenario)
