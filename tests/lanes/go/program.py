"""The program in `SOURCE` of a test module, built once hosted and once natively."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from lanes.go.toolchain import Go
from tests.lanes.go.module import Module
from tests.lanes.go.native import running
from tests.support.peer import Peer, peer


@pytest.fixture(scope="module")
def module(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Module:
    module = Module(tmp_path_factory.mktemp("program ü").resolve(), cache)
    module.program(request.module.SOURCE)
    return module


@pytest.fixture(scope="module")
def artifact(module: Module) -> ComponentArtifact:
    return module.build("deploy")


@pytest.fixture(scope="module")
def native(module: Module, artifact: ComponentArtifact, go: Go) -> Iterator[int]:
    with running(module, go) as port:
        yield port


@pytest.fixture(scope="module")
def other() -> Iterator[Peer]:
    """Another server, which the program calls."""
    with peer() as server:
        yield server
