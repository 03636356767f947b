import asyncio
import os
import socket
import time
from pathlib import Path

import pytest

from engine.lane import ToolchainMissing
from lanes.js import toolchain
from lanes.js.toolchain import NODE, ensure, find, packages_folder, tools
from tests.lanes.js.sources import Sources

pytestmark = pytest.mark.slow
HELLO = "export default { fetch: () => new Response('hello') };\n"


def without(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove `name` from PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in {"node", "npm"} - {name}:
        (folder / tool).write_text("#!/bin/sh\necho v20.0.0\n")
        (folder / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a package index that is unreachable."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_RETRIES", "0")


NODES = {
    "node is not on PATH": None,
    "is 18.19.0, older than 20": "echo v18.19.0",
    "cannot be run: no such machine": "echo no such machine; exit 3",
    "cannot be run: exit status 0": "true",
}


@pytest.mark.parametrize("reason", NODES)
def test_unusable_node_is_reported_when_none_can_be_installed(
    reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without("node", monkeypatch, tmp_path)
    if NODES[reason] is not None:
        (tmp_path / "bin" / "node").write_text(f"#!/bin/sh\n{NODES[reason]}\n")
        (tmp_path / "bin" / "node").chmod(0o755)
    offline(monkeypatch)
    lines: list[str] = []
    with pytest.raises(ToolchainMissing) as exc_info:
        asyncio.run(ensure(tmp_path / "cache", lines.append))
    assert reason in lines[0]
    assert "cannot be reached" in exc_info.value.message and "install Node.js yourself" in exc_info.value.hint
    (first, *_) = asyncio.run(tools(tmp_path / "cache"))
    assert reason in first.problem and first.remedy == "svc doctor --fix"


def test_node_without_npm_is_unusable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without("npm", monkeypatch, tmp_path)
    assert asyncio.run(find(tmp_path)) == "npm is not on PATH"


def test_managed_node_builds(
    sources: Sources, monkeypatch: pytest.MonkeyPatch, path_without_node: str
) -> None:
    sources.write("index.js", HELLO)
    monkeypatch.setenv("PATH", path_without_node)
    assert "hello" in (sources.build().script or "")
    first, *packages = asyncio.run(tools(sources.cache))
    assert first.managed and Path(first.path).is_file() and first.version.startswith("24.")
    assert [tool.name for tool in packages] == ["componentize-js", "esbuild"]
    assert not any(tool.problem for tool in (first, *packages))


@pytest.mark.nightly
def test_npm_of_the_managed_node_installs_the_packages(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path, path_without_node: str
) -> None:
    monkeypatch.setenv("PATH", path_without_node)
    own = tmp_path / "own cache"
    asyncio.run(ensure(cache, print))
    (own / "toolchains").mkdir(parents=True)
    name = NODE.folder(cache).name
    (own / "toolchains" / name).symlink_to(NODE.folder(cache), target_is_directory=True)
    assert asyncio.run(ensure(own, print)).script("bundler.mjs").startswith(str(own))


def test_failing_npm_leaves_no_installation(
    sources: Sources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources.write("index.js", HELLO)
    sources.cache = tmp_path / "empty cache"
    without("", monkeypatch, tmp_path)
    (tmp_path / "bin" / "npm").write_text("#!/bin/sh\necho 'npm error network is down'; exit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    with pytest.raises(ToolchainMissing) as exc_info:
        sources.build()
    assert "network is down" in exc_info.value.message
    assert [p.name for p in (sources.cache / "toolchains").iterdir() if p.is_dir()] == []


def test_full_disk_is_reported_with_svc_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without("", monkeypatch, tmp_path)
    (tmp_path / "bin" / "npm").write_text("#!/bin/sh\necho 'npm error code ENOSPC'; exit 228\n")
    with pytest.raises(ToolchainMissing) as exc_info:
        asyncio.run(ensure(tmp_path / "cache", print))
    assert "SVC_HOME" in exc_info.value.hint


def test_unreachable_registry_is_reported_soon(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    asyncio.run(ensure(cache, print))
    (tmp_path / "cache" / "toolchains").mkdir(parents=True)
    place = tmp_path / "cache" / "toolchains" / NODE.folder(cache).name
    place.symlink_to(NODE.folder(cache), target_is_directory=True)
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1/")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    began = time.monotonic()
    with pytest.raises(ToolchainMissing, match="ECONNREFUSED") as exc_info:
        asyncio.run(ensure(tmp_path / "cache", print))
    assert "npm config get registry" in exc_info.value.hint and "    at " not in exc_info.value.message
    assert time.monotonic() - began < 60


def test_silent_registry_is_reported_while_the_install_waits(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(toolchain, "SILENCE_SECONDS", 0.1)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))

    async def main() -> None:
        silent = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as silent_server:
            monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{silent_server.getsockname()[1]}/")
            install = ensure(
                tmp_path / "cache", lambda line: silent.set() if "not answered" in line else None
            )
            task = asyncio.create_task(install)
            await asyncio.wait_for(silent.wait(), 60)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert not packages_folder(tmp_path / "cache").exists()


def test_concurrent_installs_share_one_and_remove_partial_ones(
    sources: Sources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources.write("index.js", HELLO)
    sources.build()
    real = packages_folder(sources.cache)
    without("", monkeypatch, tmp_path)
    runs, waits = tmp_path / "runs", tmp_path / "waits"
    wait = f"while ! test -e '{waits}'; do sleep 0.05; done"
    install = f"echo run >> '{runs}'\n{wait}\nln -s '{real}/node_modules' node_modules\n"
    (tmp_path / "bin" / "npm").write_text(f"#!/bin/sh\ntest $1 = install || exit 0\n{install}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    empty = tmp_path / "empty cache"
    leftover = empty / "toolchains" / f".installing-{real.name}-killed"
    leftover.mkdir(parents=True)
    (leftover / ".svc-owner").touch()

    def report(line: str) -> None:
        if "waiting" in line:
            waits.touch()

    async def both() -> tuple[object, object]:
        return await asyncio.wait_for(asyncio.gather(ensure(empty, report), ensure(empty, report)), 60)

    first, second = asyncio.run(both())
    assert first == second
    assert runs.read_text() == "run\n"
    assert not leftover.exists()
