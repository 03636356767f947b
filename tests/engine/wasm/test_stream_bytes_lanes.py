"""Streams of components of each lane: bodies of megabytes, byte-exact, text and binary."""

import asyncio
from pathlib import Path

import pytest

from bench.body import SOURCES
from bench.guests import write_guest
from bench.payload import BLOCK_SIZE, block
from engine.artifact import ComponentArtifact
from engine.lane import BuildRequest
from engine.manifest.load import load
from engine.manifest.model import Resource
from engine.wasm.binary.reader import read_outline
from engine.wasm.execution.run_state import GuestRequest, RunReport
from engine.wasm.execution.runner import Guest, Runner
from engine.wasm.weave.builder import DIRECT_INTERFACES, HOST_INTERFACE
from engine.wasm.weave.weaver import weave
from lanes.go.lane import GoLane
from lanes.js.lane import JsLane
from lanes.rust.lane import RustLane
from tests.support.guest_client import Answer, Client
from tests.support.toolchains import rust_and_go

pytestmark = pytest.mark.slow
LANES = {"rust": RustLane, "go": GoLane, "js": JsLane}
TEXT = b"Text crosses as it is. " * 9000
MIXED = [
    TEXT[:70_001],
    bytes(range(256)) * 700,
    b"",
    b"\xff",
    TEXT[:3],
    block(),
    TEXT[:9] + "é".encode() + TEXT,
]


class Announced:
    """A guest whose requests have a content-length."""

    def __init__(self, guest: Guest, size: int) -> None:
        self._guest = guest
        self._size = size

    async def run(self, request: GuestRequest) -> RunReport:
        stored = [item for item in request.headers if item[0] != b"transfer-encoding"]
        request.headers = [*stored, (b"content-length", str(self._size).encode())]
        return await self._guest.run(request)


class Built:
    """`bench-body` as built by a lane."""

    def __init__(self, resource: Resource, artifact: ComponentArtifact, cache: Path) -> None:
        self.resource = resource
        self.artifact = artifact
        self._cache = cache

    def ask(self, target: str, method: str = "GET", body: list[bytes] | None = None, *, fast: bool) -> Answer:
        async def main() -> Answer:
            runner = Runner(self._cache)
            try:
                guest = await runner.guest(
                    self.resource, self.artifact, {}, fast=fast, report=lambda line: None
                )
                announced = Announced(guest, sum(map(len, body or [])))
                return await Client(body or []).call(announced, target, method)  # type: ignore[arg-type]
            finally:
                await runner.aclose()

        return asyncio.run(main())


@pytest.fixture(scope="module", params=LANES)
def built(request: pytest.FixtureRequest, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    project = write_guest(tmp_path_factory.mktemp("body"), "body", request.param, SOURCES)
    resource = load(project).resources["web"]

    async def build() -> ComponentArtifact:
        lane = LANES[request.param]()
        try:
            artifact = await lane.build(BuildRequest(resource, project, cache, "deploy"))
        finally:
            if isinstance(lane, JsLane):
                await lane.aclose()
        assert isinstance(artifact, ComponentArtifact)
        return artifact

    with rust_and_go(cache):
        return Built(resource, asyncio.run(build()), cache)


def test_component_of_a_lane_imports_no_wasi_once_woven(built: Built) -> None:
    woven = weave(built.artifact.component.read_bytes())
    imports = {name.partition("@")[0] for name in read_outline(woven).imports}
    assert HOST_INTERFACE in imports and imports - {HOST_INTERFACE, *DIRECT_INTERFACES} == set()


@pytest.mark.parametrize("fast", [False, True], ids=["optimised", "baseline"])
def test_download_is_byte_exact(built: Built, fast: bool) -> None:
    answer = built.ask(f"/{48 * BLOCK_SIZE}", fast=fast)
    assert (answer.report.detail, answer.ended) == ("", True)
    assert answer.body == block() * 48


@pytest.mark.parametrize("fast", [False, True], ids=["optimised", "baseline"])
def test_echo_is_byte_exact(built: Built, fast: bool) -> None:
    pieces = MIXED * 4
    answer = built.ask("/echo", "POST", pieces, fast=fast)
    assert answer.body == b"".join(pieces)


def test_largest_allowed_upload_arrives_complete(built: Built) -> None:
    """Guests of the js lane hold one resource per wait for input, one for every 8 KiB."""
    answer = built.ask("/", "POST", [block()] * 511 + [bytes(BLOCK_SIZE - 1)], fast=False)
    assert (answer.report.detail, answer.body) == ("", b"%d\n" % (512 * BLOCK_SIZE - 1))
