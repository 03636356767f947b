"""A service on a real bucket, runner and server, for tests."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from engine.artifact import Artifact
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import as_digest
from engine.deploy import package_store
from engine.deploy.deployment import DeployedResource, Deployment
from engine.deploy.package_store import pack
from engine.deploy.serving import Publication, ServingTable, Tenants, VersionFactory
from engine.errors import SvcError
from engine.gateway.app import Gateway, GatewaySettings
from engine.http.server import serve
from engine.http.sockets import bind
from engine.service.deployer import Deployer, DeploySpec, read_packages, read_project
from engine.service.policy import Change, component_imports
from engine.service.secrets import SecretsKey
from engine.timeline.record import Record
from engine.wasm.execution.runner import Runner
from tests.engine.deploy.packing import store

DOMAIN = "apps.example"
STATIC = '[project]\nname = "shop"\n[resource.web]\nlane = "static"\npublic = true\noutput = "."\n'


@dataclass
class Served:
    """A running service, and a client of its public address."""

    service: Deployer
    bucket: FolderBucket
    client: httpx.AsyncClient
    warned: list[SvcError] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    async def order(
        self, manifest: str, artifacts: Mapping[str, Artifact], by: str = "ann", **fields: Any
    ) -> DeploySpec:
        """Upload artifacts; return a deploy request for the current revision."""
        packages = {name: (await store(self.bucket.blobs, pack(a))).package for name, a in artifacts.items()}
        project = read_project(manifest, fields.pop("name", "shop"))
        live = await self.service.history.live(project.name)
        fields.setdefault("revision", live.revision if live is not None else None)
        return DeploySpec(project=project, packages=read_packages(project, packages), by=by, **fields)

    async def deploy(self, order: DeploySpec) -> Deployment:
        """Deploy and wait for the end."""
        steps = [step async for step in self.service.deploy(order)]
        assert isinstance(steps[-1], Deployment)
        return steps[-1]

    async def plan(self, manifest: str, artifacts: Mapping[str, Artifact]) -> list[Change]:
        """Return the changes of a deploy."""
        packed = {name: pack(artifact).package for name, artifact in artifacts.items()}
        project = read_project(manifest, "shop")
        resources = {
            name: DeployedResource.of(
                resource,
                as_digest(sha256(packed[name].encode()).hexdigest()),
                packed[name].artifact,
                component_imports(artifacts[name]),
            )
            for name, resource in project.resources.items()
        }
        return await self.service.changes("shop", project, resources, {})

    async def get(self, path: str = "/", resource: str = "web", project: str = "shop") -> httpx.Response:
        """Send a request to a resource."""
        return await self.client.get(path, headers={"host": f"{resource}--{project}.{DOMAIN}"})


def served(
    folder: Path,
    test: Callable[[Served], Awaitable[Any]],
    publish: Callable[[Publication], Awaitable[None]] | None = None,
) -> Any:
    """Run the service on a folder, run the test against it, and stop it."""

    async def main() -> Any:
        bucket = FolderBucket(folder / "bucket")
        runner = Runner(folder / "cache")
        records: list[Record] = []
        tenants = Tenants(
            (),
            lambda project: folder / "projects" / project,
            lambda project, timeline: timeline.subscribe(records.append),
        )
        site = ServingTable(
            VersionFactory(
                runner,
                "deploy",
                lambda line: None,
                tenants.doors,
                unpack=package_store.unpacker(bucket.blobs, folder / "unpacked"),
            ),
            DOMAIN,
            front=False,
        )
        service = Deployer(
            bucket,
            unpacked=folder / "unpacked",
            cache=folder / "cache",
            site=site,
            tenants=tenants,
            domain=DOMAIN,
            key=SecretsKey.open(folder),
            publish=publish,
        )
        stop, sockets = asyncio.Event(), bind("localhost", 0)
        port = sockets[0].getsockname()[1]
        gateway = Gateway(lambda: site.routes, tenants.timeline, GatewaySettings())
        server = asyncio.create_task(serve(gateway, sockets, stop=stop, grace=1))
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                running = Served(service, bucket, client, records=records)
                await service.start(running.warned.append)
                return await test(running)
        finally:
            stop.set()
            await server
            await runner.aclose()
            await tenants.aclose()
            await bucket.aclose()

    return asyncio.run(main())
