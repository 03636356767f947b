"""Artifacts of every lane, packed, activated, unpacked and served from a bucket."""

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.artifact import Artifact, ComponentArtifact, FolderArtifact, StaticBundle
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Digest
from engine.build.builder import Builder
from engine.deploy.deployment import DeployedResource, Deployment, DeploymentHistory, Live
from engine.deploy.package_store import pack, unpack
from engine.gateway.static.responder import StaticResponder
from engine.lane import Lane
from engine.manifest.load import load
from engine.manifest.model import Project
from engine.wasm.execution.runner import Runner
from lanes.go.lane import GoLane
from lanes.js.lane import JsLane
from lanes.rust.lane import RustLane
from lanes.static.lane import StaticLane
from tests.engine.deploy.packing import opened, store
from tests.engine.exchanges import PLAIN, CollectingExchange
from tests.support.guest_client import Client
from tests.support.toolchains import rust_and_go

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SAMPLE = Path(__file__).resolve().parents[3] / "sample-apps" / "polyglot"
LANES = ("js", "go", "rust")


@pytest.fixture(scope="module")
def toolchains(cache: Path) -> Iterator[None]:
    with rust_and_go(cache):
        yield


async def built(project: Project, cache: Path) -> dict[str, Artifact]:
    lanes: dict[str, Lane] = {lane.spec.name: lane for lane in (StaticLane(), JsLane(), GoLane(), RustLane())}
    builder = Builder(lanes, cache, "deploy", os.environ)
    try:
        return {
            name: await builder.remembered(resource, project.root)
            or await builder.build(resource, project.root, lambda line: None, remember=True)
            for name, resource in project.resources.items()
        }
    finally:
        await asyncio.gather(*(lane.aclose() for lane in lanes.values()))


async def deploy(bucket: FolderBucket, project: Project, artifacts: dict[str, Artifact]) -> int:
    """Deploy artifacts; return the number of blobs sent."""
    parts, sent = {}, 0
    for name, artifact in artifacts.items():
        assert isinstance(artifact, ComponentArtifact | StaticBundle)
        stored = await store(bucket.blobs, pack(artifact))
        parts[name] = DeployedResource.of(project.resources[name], stored.package, Digest(artifact.digest))
        sent += stored.sent
    history = DeploymentHistory(bucket)
    live = await history.live(project.name)
    id_ = f"0{len(await history.deployments(project.name))}"
    await history.add(
        Deployment(id_, project.name, created_ns=1, by="me", commit="", message="", resources=parts)
    )
    now = await history.activate(
        project.name, id_, at_ns=1, by="me", revision=live.revision if live else None
    )
    assert isinstance(now, Live)
    return sent


async def asked(bucket: FolderBucket, name: str, folder: Path, cache: Path) -> dict[str, bytes]:
    """Unpack and run the live deployment; return the response body of each resource."""
    live = await DeploymentHistory(bucket).live(name)
    assert live is not None
    deployment = await DeploymentHistory(bucket).get(name, live.deployment)
    runner, answers = Runner(cache), {}
    try:
        for part, resource in zip(
            deployment.resources.values(), deployment.served(folder).resources.values(), strict=True
        ):
            artifact = await unpack(bucket.blobs, part.package, folder)
            if isinstance(artifact, ComponentArtifact):
                guest = await runner.guest(resource, artifact, {}, fast=False, report=lambda line: None)
                answers[part.name] = (await Client().call(guest, f"/{part.name}/hello")).body
            else:
                answers[part.name] = await page(artifact)
    finally:
        await runner.aclose()
    return answers


async def page(artifact: FolderArtifact | StaticBundle) -> bytes:
    """Return the page that a static artifact serves."""
    exchange = CollectingExchange("/")
    await StaticResponder(artifact, PLAIN).respond(exchange)
    assert exchange.status == 200
    return b"".join(exchange.parts)


def test_deployments_of_every_lane_are_served_from_bucket(
    tmp_path: Path, cache: Path, toolchains: None
) -> None:
    project = load(SAMPLE)
    artifacts = asyncio.run(built(project, cache))

    async def first(bucket: FolderBucket) -> int:
        return await deploy(bucket, project, artifacts)

    async def look(bucket: FolderBucket) -> dict[str, bytes]:
        return await asked(bucket, project.name, tmp_path / "unpacked", cache)

    async def again(bucket: FolderBucket) -> int:
        public = replace(project.resources["js"], public=True)
        changed = replace(project, resources=dict(project.resources) | {"js": public})
        return await deploy(bucket, changed, artifacts)

    assert opened(tmp_path / "bucket", first) >= 2 * len(LANES)
    answers = opened(tmp_path / "bucket", look)
    assert answers["front"] == (SAMPLE / "front" / "index.html").read_bytes()
    for lane in LANES:
        assert json.loads(answers[lane])["lane"] == lane
    assert opened(tmp_path / "bucket", again) == 0
