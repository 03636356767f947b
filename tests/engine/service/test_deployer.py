"""The live deployment changes atomically, and is live again after a restart."""

import asyncio
from pathlib import Path

import pytest

from engine.bucket.protocols import BlobMissing, Digest
from engine.deploy.deployment import DeploymentError, RevisionConflict
from engine.deploy.serving import Publication
from engine.errors import SvcError
from engine.grant import Grant
from engine.manifest.edit import AddMount, redrawn
from engine.manifest.model import Project, Resource
from engine.manifest.problems import ManifestError
from engine.service.deployer import (
    DeploySpec,
    HealthCheckFailed,
    InvalidDeploySpec,
    read_packages,
    read_project,
)
from engine.service.policy import Change, PolicyViolation
from engine.service.secrets import SecretError
from engine.timeline.record import PlatformRecord
from tests.engine.service.pages import deploy_page, pages
from tests.engine.service.serving import DOMAIN, STATIC, Served, served


def test_deployment_is_live_after_deploy_and_restart(tmp_path: Path) -> None:
    one = pages(tmp_path, "one")

    async def first(running: Served) -> str:
        assert (await running.get()).status_code == 404
        deployment = await running.deploy(await running.order(STATIC, {"web": one}, message="first"))
        assert (await running.get()).text == "one"
        assert (await running.get(resource="other")).status_code == 404
        live = await running.service.history.live("shop")
        assert (
            live is not None and live.activations[-1].by == "ann" and live.activations[-1].message == "first"
        )
        return deployment.id

    async def second(running: Served) -> None:
        assert (await running.get()).text == "one" and running.warned == []
        live = await running.service.history.live("shop")
        assert live is not None and live.deployment == result

    result = served(tmp_path, first)
    served(tmp_path, second)


def test_deploy_with_an_address_of_another_project_is_refused(tmp_path: Path) -> None:
    parts, page = {"page": pages(tmp_path, "old")}, pages(tmp_path, "one")

    async def scenario(running: Served) -> None:
        site, folder = running.service._site, tmp_path / "old"
        resource = Resource("page", "static", folder, public=True)
        older = Project("web--shop", folder, {"page": resource})  # No manifest can have this name.
        site.activate(await site.prepare(Publication(older, parts)))
        order = await running.order(STATIC, {"web": page})
        with pytest.raises(SvcError) as caught:
            await running.deploy(order)
        assert caught.value.code == "conflict"
        assert caught.value.message == f"the address web--shop.{DOMAIN} belongs to the project web--shop"
        assert (await running.get()).text == "old"
        assert await running.service.history.live("shop") is None

    served(tmp_path, scenario)


def test_rollback_serves_older_deployment(tmp_path: Path) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")

    async def scenario(running: Served) -> None:
        older = await running.deploy(await running.order(STATIC, {"web": one}))
        await running.deploy(await running.order(STATIC, {"web": two}))
        assert (await running.get()).text == "two"
        (change,) = await running.service.rollback_changes("shop", older.id)
        assert change.field == "artifact"
        live = await running.service.history.live("shop")
        assert live is not None
        second = {"by": "bob", "owner": False, "message": "two is bad", "revision": live.revision}
        await running.service.rollback("shop", older.id, **second)  # type: ignore[arg-type]
        assert (await running.get()).text == "one"
        with pytest.raises(RevisionConflict, match="bob deployed"):
            await running.service.rollback("shop", older.id, **second)  # type: ignore[arg-type]
        with pytest.raises(DeploymentError):
            live = await running.service.history.live("shop")
            assert live is not None
            await running.service.rollback(
                "shop", "never", by="bob", owner=False, message="", revision=live.revision
            )
        assert (await running.get()).text == "one"

    served(tmp_path, scenario)


def test_prepared_deployment_is_served_once_another_node_activates_it(tmp_path: Path) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")

    async def scenario(running: Served) -> None:
        service = running.service
        older = await running.deploy(await running.order(STATIC, {"web": one}))
        await running.deploy(await running.order(STATIC, {"web": two}))
        await service.prepare("shop", older.id)
        live = await service.history.live("shop")
        assert live is not None
        await service.history.activate("shop", older.id, at_ns=1, by="bob", revision=live.revision)
        assert (await running.get()).text == "two"
        # Without its packages, the deployment cannot be unpacked again.
        for part in older.resources.values():
            assert await running.bucket.blobs.delete(part.package, 2**62)
        # Nor does it wait for a change that this node makes meanwhile.
        async with service._locks["shop"]:
            refreshing = asyncio.create_task(service.refresh("shop"))
            async with asyncio.timeout(60):
                while (await running.get()).text == "two":
                    pass
        await refreshing
        assert (await running.get()).text == "one"

    served(tmp_path, scenario)


class Gate:
    """Blocks publication to worker processes until it is opened."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.inside = 0
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.opened.set()

    async def publish(self, publication: Publication) -> None:
        self.inside += 1
        assert self.inside == 1, "two changes of one project at once"
        self.reached.set()
        await self.opened.wait()
        self.events.append(publication.deployment)
        self.inside -= 1


@pytest.mark.parametrize("leave", [False, True])
def test_activation_excludes_other_changes_even_after_disconnect(tmp_path: Path, leave: bool) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")
    gate = Gate()

    async def scenario(running: Served) -> None:
        service = running.service
        older = await running.deploy(await running.order(STATIC, {"web": one}))
        newer = await running.deploy(await running.order(STATIC, {"web": two}))
        live = await service.history.live("shop")
        assert live is not None
        gate.opened.clear()
        gate.reached.clear()
        back = asyncio.create_task(
            service.rollback("shop", older.id, by="bob", owner=False, message="", revision=live.revision)
        )
        await gate.reached.wait()
        if leave:
            back.cancel()
            with pytest.raises(asyncio.CancelledError):
                await back
        secret = asyncio.create_task(service.change("shop", service.secrets.set("shop", "KEY", "new")))
        order = await running.order(STATIC, {"web": two})
        forward = asyncio.create_task(running.deploy(order))
        async with asyncio.timeout(60):
            while not await running.bucket.kv.list("secrets/"):  # noqa: ASYNC110 - a bucket has no events
                await asyncio.sleep(0.01)
        assert gate.events == [older.id, newer.id]
        gate.opened.set()
        await asyncio.gather(secret, forward, *(() if leave else (back,)))
        assert gate.events[2] == older.id and gate.events[-1] == forward.result().id
        assert (await running.get()).text == "two"

    served(tmp_path, scenario, gate.publish)


def test_secret_is_applied_after_client_disconnect(tmp_path: Path) -> None:
    gate, one = Gate(), pages(tmp_path, "one")

    async def scenario(running: Served) -> None:
        deployed = await running.deploy(await running.order(STATIC, {"web": one}))
        gate.opened.clear()
        gate.reached.clear()
        setting = asyncio.create_task(
            running.service.change("shop", running.service.secrets.set("shop", "KEY", "new"))
        )
        await gate.reached.wait()
        setting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await setting
        gate.opened.set()
        await running.service.aclose()
        assert gate.events == [deployed.id, deployed.id]

    served(tmp_path, scenario, gate.publish)


def test_redrawn_deployment_is_published_to_workers_and_other_nodes_first(tmp_path: Path) -> None:
    gate, one = Gate(), pages(tmp_path, "one")
    more = STATIC + '[resource.docs]\nlane = "static"\noutput = "."\n'

    async def scenario(running: Served) -> None:
        service = running.service
        first = await running.deploy(await running.order(more, {"web": one, "docs": one}))
        live = await service.history.live("shop")
        assert live is not None

        async def ready_elsewhere(project: str, id_: str) -> None:
            gate.events.append(f"prepared {(await service.history.get(project, id_)).message}")

        service.ready_elsewhere = ready_elsewhere
        project = redrawn(first.served(tmp_path), [AddMount("web", "/docs/*", "docs")])
        drawn = first.redrawn(project, "bob", first.created_ns + 1)
        activated = await service.redeploy(drawn, live.revision)
        message = "mount web:/docs/* → docs (Console)"
        assert gate.events == [first.id, f"prepared {message}", drawn.id]
        assert (activated.activations[-1].by, activated.activations[-1].message) == ("bob", message)
        with pytest.raises(RevisionConflict, match="bob deployed"):
            await service.redeploy(drawn, live.revision)

    served(tmp_path, scenario, gate.publish)


def test_concurrent_deploys_activate_one(tmp_path: Path) -> None:
    artifacts = [pages(tmp_path, text) for text in ("zero", "one", "two")]

    async def scenario(running: Served) -> None:
        await running.deploy(await running.order(STATIC, {"web": artifacts[0]}))
        orders = [await running.order(STATIC, {"web": each}, by=each.digest) for each in artifacts[1:]]  # type: ignore[union-attr]
        results = await asyncio.gather(*map(running.deploy, orders), return_exceptions=True)
        conflicts = [result for result in results if isinstance(result, RevisionConflict)]
        won = [result for result in results if not isinstance(result, BaseException)]
        assert (
            len(conflicts) == len(won) == 1
            and won[0].id in conflicts[0].message
            and won[0].by in conflicts[0].message
        )
        live = await running.service.history.live("shop")
        assert live is not None and live.deployment == won[0].id and len(live.activations) == 2

    served(tmp_path, scenario)


def test_plan_lists_changes(tmp_path: Path) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")
    more = STATIC + 'spa = true\n[resource.docs]\nlane = "static"\noutput = "."\n'

    async def scenario(running: Served) -> None:
        first = await running.plan(STATIC, {"web": one})
        assert first == [Change("web", "resource", "", "static, public")]
        await running.deploy(await running.order(STATIC, {"web": one}))
        assert await running.plan(STATIC, {"web": one}) == []
        result = await running.plan(more, {"web": two, "docs": one})
        assert [(change.resource, change.field) for change in result] == [
            ("web", "spa"),
            ("web", "artifact"),
            ("docs", "resource"),
        ]
        assert (await running.get()).text == "one"

    served(tmp_path, scenario)


def test_plan_lists_each_changed_mount(tmp_path: Path) -> None:
    page = pages(tmp_path, "page")
    others = "".join(f'[resource.{name}]\nlane = "static"\noutput = "."\n' for name in "abc")
    before = STATIC + 'mounts = { "/a/*" = "a", "/b/*" = "b", "/same" = "c" }\n' + others
    after = STATIC + 'mounts = { "/a/*" = "c", "/c/*" = "c", "/same" = "c" }\n' + others
    artifacts = dict.fromkeys(["web", *"abc"], page)

    async def scenario(running: Served) -> None:
        await running.deploy(await running.order(before, artifacts))
        assert await running.plan(after, artifacts) == [
            Change("web", "mount /a/*", "a", "c"),
            Change("web", "mount /b/*", "b", ""),
            Change("web", "mount /c/*", "", "c"),
        ]

    served(tmp_path, scenario)


def test_failed_health_check_changes_nothing(tmp_path: Path) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")
    checked = STATIC.replace('name = "shop"\n', 'name = "shop"\ncheck = "/health"\n')

    async def scenario(running: Served) -> None:
        await running.deploy(await running.order(STATIC, {"web": one}))
        with pytest.raises(HealthCheckFailed, match="resource web responded to /health with 404"):
            await running.deploy(await running.order(checked, {"web": two}))
        assert (await running.get()).text == "one"
        assert len(await running.service.history.deployments("shop")) == 1
        await running.deploy(await running.order(checked.replace("/health", "/"), {"web": two}))
        assert (await running.get()).text == "two"

    served(tmp_path, scenario)


def test_deploy_with_missing_secret_raises(tmp_path: Path) -> None:
    one = pages(tmp_path, "one")
    secret = STATIC.replace('lane = "static"', 'lane = "static"\nsecrets = ["KEY"]')

    async def scenario(running: Served) -> None:
        with pytest.raises(PolicyViolation, match="needs the secret KEY") as exc_info:
            await running.deploy(await running.order(secret, {"web": one}))
        assert "svc secret set KEY" in exc_info.value.hint
        event = next(record for record in running.records if isinstance(record, PlatformRecord))
        assert event.resource == "web" and event.grant == Grant("secret", "svc secret set KEY")
        await running.service.secrets.set("shop", "KEY", "ü\n")
        await running.deploy(await running.order(secret, {"web": one}))
        assert await running.service.secrets.values("shop", {"KEY"}) == {"KEY": "ü\n"}
        assert await running.service.secrets.remove("shop", "KEY")
        assert not await running.service.secrets.remove("shop", "KEY")
        for name, value in (("SVC_X", ""), ("a b", ""), ("OK", "\0"), ("OK", "x" * 70_000)):
            with pytest.raises(SecretError):
                await running.service.secrets.set("shop", name, value)

    served(tmp_path, scenario)


def test_deploy_with_missing_package_raises(tmp_path: Path) -> None:
    async def scenario(running: Served) -> None:
        project = read_project(STATIC, "shop")
        with pytest.raises(BlobMissing):
            await running.deploy(
                DeploySpec(project=project, packages={"web": Digest("0" * 64)}, by="ann", revision=None)
            )

    served(tmp_path, scenario)


def test_projects_are_independent(tmp_path: Path) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")

    async def scenario(running: Served) -> None:
        await deploy_page(running, one)
        await deploy_page(running, two, "blog")
        assert [(await running.get(project=name)).text for name in ("shop", "blog")] == ["one", "two"]

    served(tmp_path, scenario)


@pytest.mark.parametrize(
    ("manifest", "error"),
    [
        ("", ManifestError),
        (STATIC.replace("static", "cobol"), ManifestError),
        (STATIC + 'workdir = "../.."\n', ManifestError),
        (STATIC.replace("shop", "other"), InvalidDeploySpec),
    ],
)
def test_invalid_manifest_raises(manifest: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_project(manifest, "shop")


@pytest.mark.parametrize("packages", [{}, {"web": "0" * 64, "api": "0" * 64}])
def test_packages_not_matching_resources_raise(packages: dict[str, str]) -> None:
    with pytest.raises(InvalidDeploySpec):
        read_packages(read_project(STATIC, "shop"), packages)
