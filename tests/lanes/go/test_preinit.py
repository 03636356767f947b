"""Pre-initialized Go components."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.wasm.binary.preinit import preinitialize
from engine.wasm.binary.reader import PAGE_BYTES, read_outline
from engine.wasm.weave.weaver import library
from engine.wasm_binary import BinaryReader, read_sections
from tests.lanes.go.deployed import artifact, program
from tests.lanes.go.module import Module, Reply

__all__ = ["artifact", "program"]
pytestmark = pytest.mark.slow
MEMORY_SECTION = 5

ENVIRONMENT = {"GREETING": "hallo", "GOGC": "37", "GOMEMLIMIT": "48MiB", "GODEBUG": "panicnil=1", "EMPTY": ""}


@pytest.fixture(scope="module")
def deployed(program: Module, artifact: ComponentArtifact) -> list[Reply]:
    return program.ask(artifact, *(["/"] * 4), environment=ENVIRONMENT, fast=False)


def values_of(replies: list[Reply], name: str) -> Iterator[Any]:
    return (json.loads(each.text)[name] for each in replies)


@pytest.fixture(scope="module")
def initialized(artifact: ComponentArtifact) -> bytes:
    return preinitialize(artifact.component.read_bytes())


def test_go_component_can_be_preinitialized(artifact: ComponentArtifact, initialized: bytes) -> None:
    assert initialized != artifact.component.read_bytes()


def test_randomness_differs_between_runs(deployed: list[Reply]) -> None:
    for source in zip(*values_of(deployed, "random"), strict=True):
        assert len(set(source)) == len(deployed)
    assert len(set(values_of(deployed, "order"))) > 1


def test_package_initialization_sees_the_environment(deployed: list[Reply]) -> None:
    assert set(values_of(deployed, "greeting")) == {"hallo below hallo"}
    assert list(values_of(deployed, "events")) == [["init of hallo"]] * len(deployed)
    variables = dict(each.split("=", 1) for each in next(values_of(deployed, "environment")))
    assert variables.items() > ENVIRONMENT.items()
    assert next(values_of(deployed, "arguments")) == ["app"]


def test_runtime_settings_come_from_the_environment(deployed: list[Reply]) -> None:
    assert set(values_of(deployed, "gogc")) == {37}
    assert set(values_of(deployed, "limit")) == {48 << 20}
    assert set(values_of(deployed, "panic")) == {"<nil>"}


def test_clocks_and_goroutines_work_in_each_run(deployed: list[Reply]) -> None:
    assert all(abs(unix - time.time()) < 600 for unix in values_of(deployed, "unix"))
    assert all(0.001 <= since < 60 for since in values_of(deployed, "since"))
    assert set(values_of(deployed, "ticks")) == {1}


def test_dev_build_answers_alike(program: Module, artifact: ComponentArtifact, deployed: list[Reply]) -> None:
    [reply] = program.ask(artifact, "/", environment=ENVIRONMENT)
    varying = {"random", "order", "unix", "since"}
    result = [
        {k: v for k, v in json.loads(each.text).items() if k not in varying} for each in (reply, deployed[0])
    ]
    assert result[0] == result[1]


def initial_pages(component: bytes) -> int:
    """Return the initial size of the memory of the program's module, in pages."""
    modules = [component[each.start : each.end] for each in read_outline(component).modules()]
    program = next(each for each in modules if b"svc_freeze" in each)
    memories = BinaryReader(dict(read_sections(program))[MEMORY_SECTION])
    _count, _flags = memories.uleb(), memories.uleb()
    return memories.uleb()


def test_short_request_needs_no_more_memory(initialized: bytes, deployed: list[Reply]) -> None:
    least = initial_pages(initialized) + library().pages
    peaks = {reply.report.peak_memory for reply in deployed}
    assert peaks <= {pages * PAGE_BYTES for pages in range(least, least + 3)}, (
        "at most two pages for the heap of the library"
    )
