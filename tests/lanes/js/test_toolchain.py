import asyncio
from pathlib import Path

import pytest

from engine.lane import ToolchainMissing
from lanes.js.toolchain import ensure
from tests.lanes.js.conftest import Sources

pytestmark = pytest.mark.slow
HELLO = "export default { fetch: () => new Response('hello') };\n"


def without(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave on PATH only what is not `name`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in {"node", "npm"} - {name}:
        (folder / tool).write_text("#!/bin/sh\necho v20.0.0\n")
        (folder / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize("name", ["node", "npm"])
def test_a_missing_tool_is_named_with_what_to_do(
    sources: Sources, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources.write("index.js", HELLO)
    without(name, monkeypatch, tmp_path)
    with pytest.raises(ToolchainMissing) as caught:
        sources.build()
    assert f"needs {name}" in caught.value.message and "Node.js 20" in caught.value.hint


def test_an_old_node_is_named(sources: Sources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sources.write("index.js", HELLO)
    without("", monkeypatch, tmp_path)
    (tmp_path / "bin" / "node").write_text("#!/bin/sh\necho v18.19.0\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    with pytest.raises(ToolchainMissing) as caught:
        sources.build()
    assert "18.19.0" in caught.value.message


def test_a_failing_npm_leaves_nothing_that_counts(
    sources: Sources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources.write("index.js", HELLO)
    sources.cache = tmp_path / "empty cache"
    without("", monkeypatch, tmp_path)
    (tmp_path / "bin" / "npm").write_text("#!/bin/sh\necho 'npm error network is down'; exit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    with pytest.raises(ToolchainMissing) as caught:
        sources.build()
    assert "network is down" in caught.value.message
    assert [p.name for p in (sources.cache / "toolchains").iterdir() if p.is_dir()] == []


def test_installs_at_once_share_one_and_what_was_left_half_made_goes(
    sources: Sources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources.write("index.js", HELLO)
    sources.build()
    real = next(p for p in (sources.cache / "toolchains").iterdir() if (p / "complete").exists())
    without("", monkeypatch, tmp_path)
    runs = tmp_path / "runs"
    npm = f"#!/bin/sh\necho run >> '{runs}'\nsleep 0.3\nln -s '{real}/node_modules' node_modules\n"
    (tmp_path / "bin" / "npm").write_text(npm)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    empty = tmp_path / "empty cache"
    left = empty / "toolchains" / f".installing-{real.name}-killed"
    left.mkdir(parents=True)
    told: list[str] = []

    async def both() -> tuple[object, object]:
        return await asyncio.gather(ensure(empty, told.append), ensure(empty, told.append))

    first, second = asyncio.run(both())
    assert first == second
    assert runs.read_text() == "run\n"
    assert not left.exists()
    assert any("waiting" in line for line in told)
