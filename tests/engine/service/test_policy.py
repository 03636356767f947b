"""Changes between two deployments, and the ones that require confirmation."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from engine.deploy.package_store import pack
from engine.grant import Grant
from engine.service.policy import Change, PolicyViolation, capabilities
from engine.timeline.record import PlatformRecord
from tests.engine.service.pages import pages
from tests.engine.service.serving import Served, served
from tests.lanes.components import component

MANIFEST = '[project]\nname = "shop"\n[resource.api]\nlane = "rust"\n'
RANDOM, SOCKETS = "wasi:random/random@0.2.3", "wasi:sockets/tcp@0.2.3"


def component_artifact(folder: Path, *imports: str) -> ComponentArtifact:
    content = component(imports)
    path = folder / f"{len(imports)}.wasm"
    path.write_bytes(content)
    return ComponentArtifact(path, sha256(content).hexdigest())


def test_capabilities_are_imported_foreign_packages() -> None:
    assert capabilities(component((RANDOM, SOCKETS, "svc:doors/call@0.1.0"))) == {
        "wasi:random",
        "wasi:sockets",
    }
    assert capabilities(b"nothing") == {"unknown"}


def test_new_capability_requires_confirmation(tmp_path: Path) -> None:
    before, after = component_artifact(tmp_path, RANDOM), component_artifact(tmp_path, RANDOM, SOCKETS)

    async def scenario(running: Served) -> None:
        await running.deploy(await running.order(MANIFEST, {"api": before}))
        result = await running.plan(MANIFEST, {"api": after})
        assert Change("api", "imports", "", "wasi:sockets", new_capability=True) in result
        with pytest.raises(PolicyViolation, match="api now imports wasi:sockets") as exc_info:
            await running.deploy(await running.order(MANIFEST, {"api": after}))
        assert "--allow-new-capability" in exc_info.value.hint
        event = next(record for record in running.records if isinstance(record, PlatformRecord))
        assert event.resource == "api" and "wasi:sockets" in event.text
        assert event.grant == Grant("import", "svc deploy --allow-new-capability")
        await running.deploy(await running.order(MANIFEST, {"api": after}, allow_new_capability=True))
        assert Change("api", "imports", "wasi:sockets", "") in await running.plan(MANIFEST, {"api": before})

    served(tmp_path, scenario)


def test_plan_lists_a_changed_fallback(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    artifacts = {"api": component_artifact(tmp_path, RANDOM), "web": pages(site, "page")}
    before = MANIFEST + '[resource.web]\nlane = "static"\noutput = "."\npublic = true\n'

    async def scenario(running: Served) -> None:
        await running.deploy(await running.order(before, artifacts))
        plan = await running.plan(before + 'fallback = "api"\n', artifacts)
        assert plan == [Change("web", "fallback", "", "api")]

    served(tmp_path, scenario)


def test_capabilities_without_record_or_package_are_new(tmp_path: Path) -> None:
    before, after = component_artifact(tmp_path, RANDOM), component_artifact(tmp_path, RANDOM, SOCKETS)
    new = Change("api", "imports", "", "wasi:sockets", new_capability=True)

    async def scenario(running: Served) -> None:
        deployed = await running.deploy(await running.order(MANIFEST, {"api": before}))
        key = f"deployments/shop/{deployed.id}"
        assert deployed.resources["api"].imports == ("wasi:random",)
        cell = await running.bucket.kv.get(key)
        assert cell is not None and cell.value is not None
        record = json.loads(cell.value)
        del record["resources"]["api"]["imports"], record["resources"]["api"]["reads"]
        older = await running.bucket.kv.cas(key, json.dumps(record).encode(), cell.revision)
        assert new in await running.plan(MANIFEST, {"api": after})
        stale = await running.plan(f'{MANIFEST}reads = "stale"\n', {"api": before})
        assert Change("api", "reads", "fresh", "stale") in stale
        assert isinstance(older, int)
        await running.bucket.kv.cas(key, cell.value, older)
        for digest in pack(before).package.digests:
            await running.bucket.blobs.delete(digest, 1 << 62)
        shutil.rmtree(tmp_path / "unpacked")
        assert new in await running.plan(MANIFEST, {"api": after})

    served(tmp_path, scenario)
