import asyncio
import hashlib
import os
import resource as limits
import time
from pathlib import Path

import pytest
from wasmtime import wat2wasm

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildRequest
from engine.manifest.model import Resource
from lanes.js.lane import JsLane
from lanes.prebuilt_component import prebuilt_component
from tests.lanes.components import component


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project ü"
    folder.mkdir()
    return folder


def request(root: Path, build: str, lines: list[str] | None = None) -> BuildRequest:
    resource = Resource("api", "js", root, build=build, output=root / "out" / "app.wasm")
    report = (lines if lines is not None else []).append
    return BuildRequest(resource, root, root.parent / "cache", "deploy", report)


def build(root: Path, command: str) -> ComponentArtifact:
    return asyncio.run(prebuilt_component(request(root, command)))


def failure(root: Path, command: str) -> BuildFailed:
    with pytest.raises(BuildFailed) as exc_info:
        build(root, command)
    assert "resource api" in exc_info.value.message
    assert not list((root.parent / "cache").rglob(".*.tmp"))
    return exc_info.value


def test_component_of_the_build_command_is_used(root: Path) -> None:
    binary = component()
    (root / "made.wasm").write_bytes(binary)
    artifact = build(root, "mkdir -p out && cp made.wasm out/app.wasm")
    assert artifact.digest == hashlib.sha256(binary).hexdigest()
    assert artifact.component.read_bytes() == binary
    (root / "out" / "app.wasm").unlink()
    assert artifact.component.is_file()


def test_js_lane_uses_a_component_without_node(
    root: Path, monkeypatch: pytest.MonkeyPatch, path_without_node: str
) -> None:
    (root / "made.wasm").write_bytes(component())
    monkeypatch.setenv("PATH", path_without_node)

    async def main() -> ComponentArtifact:
        lane = JsLane()
        try:
            return await lane.build(request(root, "mkdir -p out && cp made.wasm out/app.wasm"))
        finally:
            await lane.aclose()

    assert asyncio.run(main()).component.is_file()


WRONG = {
    "wrote no file out/app.wasm": b"",
    "is empty": b"",
    "is a core WebAssembly module": bytes(wat2wasm("(module)")),
    "is WebAssembly text": b"\n (component)",
    "is not a WebAssembly component": b"#!/bin/sh",
    "is not a file": b"",
}


@pytest.mark.parametrize("words", WRONG)
def test_invalid_output_is_rejected_with_a_hint(root: Path, words: str) -> None:
    (root / "made").write_bytes(WRONG[words])
    commands = {"wrote no file out/app.wasm": "true", "is not a file": "mkdir -p out && mkfifo out/app.wasm"}
    error = failure(root, commands.get(words, "mkdir -p out && cp made out/app.wasm"))
    assert words in error.message and "build" in error.hint
    if "core" in words:
        assert "component new" in error.hint


def test_folder_or_broken_link_is_not_a_component(root: Path) -> None:
    assert "not a file" in failure(root, "mkdir -p out/app.wasm").message
    assert "no file" in failure(root, "rm -r out; mkdir out; ln -s nowhere out/app.wasm").message


def test_component_outside_the_project_is_refused(root: Path) -> None:
    (root.parent / "app.wasm").write_bytes(component())
    for command in ("rm -rf out; ln -s .. out", "rm out; mkdir out; ln -s ../../app.wasm out/app.wasm"):
        error = failure(root, command)
        assert error.message == 'resource api: "out/app.wasm" is outside the project folder'
        assert "symlink" in error.hint


def test_failed_command_shows_its_output(root: Path) -> None:
    error = failure(root, "echo a reason; exit 3")
    assert "exit status 3" in error.message and "a reason" in error.output


def test_command_with_much_output_and_children_succeeds(root: Path) -> None:
    (root / "made.wasm").write_bytes(component())
    lines: list[str] = []
    command = (
        "head -c 100000000 /dev/zero | tr '\\0' x; for i in 1 2 3 4 5 6 7 8; do sleep 300 & done;"
        "mkdir -p out; cp made.wasm out/app.wasm"
    )
    began = time.monotonic()
    artifact = asyncio.run(prebuilt_component(request(root, command, lines)))
    assert artifact.component.is_file()
    assert time.monotonic() - began < 60 and sum(map(len, lines)) < 1 << 20


def test_full_disk_leaves_no_partial_files(root: Path) -> None:
    (root / "out").mkdir()
    padded = component() + b"\0" + b"\xff\xff\x7f\x00" + bytes((1 << 21) - 2)
    (root / "out" / "app.wasm").write_bytes(padded)
    before = limits.getrlimit(limits.RLIMIT_FSIZE)
    limits.setrlimit(limits.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        error = failure(root, "true")
    finally:
        limits.setrlimit(limits.RLIMIT_FSIZE, before)
    assert "could not be copied" in error.message and "SVC_HOME" in error.hint
    assert build(root, "true").component.stat().st_size == len(padded)


def test_concurrent_builds_run_the_command_in_turn(root: Path) -> None:
    (root / "made.wasm").write_bytes(component())
    command = (
        "test ! -e busy || exit 9; touch busy; while ! test -e ../waits; do sleep 0.05; done;"
        "mkdir -p out; cp made.wasm out/app.wasm; rm busy"
    )
    lines: list[str] = []

    async def both() -> list[ComponentArtifact]:
        builds = asyncio.gather(*(prebuilt_component(request(root, command, lines)) for _ in range(2)))
        while not any(line.startswith("waiting") for line in lines):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        (root.parent / "waits").touch()
        return await builds

    first, second = asyncio.run(asyncio.wait_for(both(), 60))
    assert first == second
    assert [line for line in lines if line.startswith("waiting")] == [
        "waiting for another build that is running the build command of resource api …"
    ]
    assert not os.path.exists(root / "busy")  # noqa: PTH110
