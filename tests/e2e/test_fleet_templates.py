"""js applications on a fleet share one template, in the order of this file.

Each node has a folder of machine code of its own, with the code that both components share. So each node puts
both components together, and compiles neither.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from engine.bucket.protocols import Digest
from engine.deploy.deployment import LIVE, RECORDS
from engine.deploy.gc import GRACE_NS, collect_garbage
from engine.deploy.package_store import COMPONENT
from engine.fleet.bucket import NAMESPACE, JetStreamBucket
from engine.fleet.node import FleetNode, cluster_address
from engine.wasm.compile.component_file import TEMPLATE, read_component
from engine.wasm.compile.image_file import read_image
from svc_tui.client import Client
from svc_tui.deploy import uploader
from tests.faults.faulty_fleet import FaultyFleet
from tests.support.fleet import FleetNodes, require_nats
from tests.support.service import environ_of, prepare, static_project
from tests.support.waiting import until
from tests.svc_tui.test_template import MAX_SENT_BYTES, application, bundled, send

pytestmark = pytest.mark.slow(seconds=60)
NODES = (1, 2, 3)
FIRST = {1: "one", 2: "two"}
"""The nodes through which the applications are deployed first."""
T = TypeVar("T")


class Applications(FleetNodes):
    """Three nodes, the component that each application should be, and the bundles that were deployed last."""

    def __init__(self, root: Path, cache: Path) -> None:
        environ = environ_of(root / "home", cache)
        self.components: dict[str, bytes] = {}
        self.bundles: dict[str, uploader.Bundle] = {}
        self.cache = cache
        super().__init__(root, static_project(root / "shop"), environ)

    def build(self, name: str, text: str) -> uploader.Bundle:
        """Build an application that answers with a text."""
        folder, file = application(self.root / name, name, text), self.root / f"{name}.wasm"
        prepare(folder, self.environ, "build", "--component", str(file))
        self.components[name] = file.read_bytes()
        self.bundles[name] = bundled(folder, self.cache)
        return self.bundles[name]

    def share_code(self, name: str) -> None:
        """Give each node the machine code of a component that was built, without its memory."""
        digest = sha256(self.components[name]).hexdigest()
        pages = max(
            (self.cache / "compiled").glob(f"{digest}-*.pages"), key=lambda path: path.stat().st_mtime_ns
        )
        image = read_image(pages)
        assert image is not None
        for number in NODES:
            folder = self.folder(number) / "cache" / "compiled"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in (image.code, image.base):
                shutil.copy2(path, folder)

    def client(self, number: int) -> Client:
        """Return a client of a node."""
        return Client(self.servers[number - 1].control, self.token)

    def send(self, number: int, bundle: uploader.Bundle) -> int:
        """Deploy through a node; return the bytes that were sent before."""
        with self.client(number) as client:
            return send(client, bundle)

    def answer(self, number: int, name: str) -> httpx.Response:
        return self.servers[number - 1].get(project=name)

    def serves(self, number: int, name: str, text: str) -> None:
        """Wait until a node answers with a text, and put the component together from what it stores."""
        until(lambda: self.answer(number, name).text == text)
        folder = self.unpacked(number, name)
        digest = self.bundles[name].packed["web"].package.artifact
        assert read_component(folder / COMPONENT, digest) == self.components[name]
        assert [*(self.folder(number) / "cache" / "compiled").glob(f"{digest}-*.pages")]

    def unpacked(self, number: int, name: str) -> Path:
        """Return the folder of an unpacked package."""
        return self.folder(number) / "unpacked" / self.bundles[name].packages["web"][0]

    def template_of(self, number: int) -> Path:
        """Return the file of the template at a node."""
        return self.folder(number) / "unpacked" / "templates" / self.template / TEMPLATE

    def forget_memories(self, number: int) -> None:
        """Remove what a node has compiled of its own, so that it puts each component together again."""
        for path in (self.folder(number) / "cache" / "compiled").glob("*.pages"):
            path.unlink()

    @property
    def template(self) -> Digest:
        """The blob of the template of all applications."""
        templates = {bundle.packed["web"].package.template for bundle in self.bundles.values()}
        (template,) = (each.digest for each in templates if each is not None)
        return template

    def bucket(self, use: Callable[[JetStreamBucket], Awaitable[T]]) -> T:
        """Use the bucket of the fleet as the first node does."""

        async def opened() -> T:
            folder = self.folder(1) / "fleet"
            address = cluster_address(folder, FleetNode.read(folder))
            bucket = await JetStreamBucket.open(address, NAMESPACE, self.root / "uploads", create=False)
            try:
                return await use(bucket)
            finally:
                await bucket.aclose()

        return asyncio.run(opened())


async def stored(bucket: JetStreamBucket) -> dict[Digest, int]:
    """Return when each blob was used last."""
    return {blob.digest: blob.used_ns async for blob in bucket.blobs.list()}


async def contents(bucket: JetStreamBucket) -> int:
    """Return how many contents are stored, also those that no blob has."""
    return len(await bucket.blobs._contents.subjects(">"))


async def remove_records(bucket: JetStreamBucket) -> None:
    """Remove the deployments of the applications."""
    for prefix in (f"{kind}{name}" for kind in (LIVE, RECORDS) for name in ("one", "two")):
        for value in await bucket.kv.list(prefix):
            await bucket.kv.cas(value.key, None, value.revision)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Applications]:
    require_nats()
    with closing(Applications(tmp_path_factory.mktemp("templates ü"), cache)) as nodes:
        for name, text in (("one", "first"), ("two", "second")):
            nodes.build(name, text)
        nodes.share_code("one")
        nodes.form()
        yield nodes


def test_two_applications_deployed_at_once_share_a_template(fleet: Applications) -> None:
    """Both nodes receive the template, and one copy of it is stored."""
    with ThreadPoolExecutor() as threads:
        deploys = [threads.submit(fleet.send, number, fleet.bundles[name]) for number, name in FIRST.items()]
        assert all(each.result() > 0 for each in deploys)
    for number in NODES:
        fleet.serves(number, "one", "first")
        fleet.serves(number, "two", "second")
    assert fleet.template in fleet.bucket(stored)
    until(lambda: fleet.bucket(contents) == len(fleet.bucket(stored)))


def test_change_sends_its_difference_and_reaches_a_node_that_was_away(fleet: Applications) -> None:
    fleet.kill(3)
    assert 0 < fleet.send(1, fleet.build("one", "changed")) < MAX_SENT_BYTES
    fleet.restart(3)
    for number in NODES:
        fleet.serves(number, "one", "changed")
        fleet.serves(number, "two", "second")


@pytest.mark.nightly
def test_damaged_template_of_a_node_is_read_from_the_fleet_again(fleet: Applications) -> None:
    fleet.kill(2, 3)
    fleet.template_of(2).write_bytes(b"damaged")
    packages = {
        number: [fleet.unpacked(number, name) / TEMPLATE for name in ("one", "two")] for number in (2, 3)
    }
    assert {path.read_bytes() for path in packages[2]} == {b"damaged"}  # They link that file.
    for path in (fleet.template_of(3), *packages[3]):
        path.unlink()
    for number in (2, 3):
        fleet.forget_memories(number)
    fleet.restart(2, 3)
    for number in (2, 3):
        fleet.serves(number, "one", "changed")
        fleet.serves(number, "two", "second")
        assert sha256(fleet.template_of(number).read_bytes()).hexdigest() == fleet.template


@pytest.mark.nightly
def test_lost_template_is_named_until_a_deploy_sends_it_again(fleet: Applications) -> None:
    async def lose(bucket: JetStreamBucket) -> None:
        entry = await bucket.blobs._record(fleet.template)
        assert entry is not None
        await bucket.blobs._contents.purge(entry[0].id)

    fleet.bucket(lose)
    FaultyFleet(fleet).wait_for_copies()
    assert fleet.servers[1].stop() == 0  # A killed nats-server may have the template again.
    fleet.template_of(2).write_bytes(b"damaged")
    fleet.forget_memories(2)
    fleet.restart(2)
    answer = fleet.answer(2, "one")
    assert answer.status_code == 503, answer.text
    line = fleet.servers[1].wait_for(fleet.template)
    assert "is not served" in line and "Deploy the project again" in line, line
    assert (fleet.answer(1, "one").text, fleet.answer(3, "two").text) == ("changed", "second")
    assert fleet.send(3, fleet.bundles["one"]) > 0
    fleet.serves(2, "one", "changed")
    fleet.serves(2, "two", "second")


def test_template_without_deployments_stays_while_a_deploy_uploads(fleet: Applications) -> None:
    fleet.bucket(remove_records)
    bundle = fleet.bundles["two"]
    before = max(fleet.bucket(stored).values())
    with fleet.client(1) as client:
        planned = uploader.plan(client, bundle)
        report = fleet.bucket(lambda bucket: collect_garbage(bucket, before + 1 + GRACE_NS))
        assert report.blobs > 0
        assert client.call("POST", "/v1/gc", {"plan": False})["blobs"] == 0
        assert bundle.contents().keys() <= fleet.bucket(stored).keys() | set(planned["missing"])
    assert fleet.template in fleet.bucket(stored)
    assert fleet.send(1, bundle) < MAX_SENT_BYTES
    for number in NODES:
        fleet.serves(number, "two", "second")


def test_template_is_collected_with_its_last_deployment(fleet: Applications) -> None:
    now = max(fleet.bucket(stored).values()) + 2 * GRACE_NS
    unpacked = fleet.folder(1) / "unpacked"
    fleet.bucket(lambda bucket: collect_garbage(bucket, now, unpacked=unpacked))
    assert fleet.template in fleet.bucket(stored) and fleet.template_of(1).exists()
    fleet.bucket(remove_records)
    fleet.bucket(lambda bucket: collect_garbage(bucket, now, unpacked=unpacked))
    left = fleet.bucket(stored)
    assert not left.keys() & {digest for each in fleet.bundles.values() for digest in each.contents()}
    assert left and not fleet.template_of(1).parent.exists()
    assert fleet.answer(1, "shop").text == "one"
