import os
from pathlib import Path

import pytest

from lanes.identity import identity
from lanes.js.lane import JsLane
from lanes.static.lane import StaticLane


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "tool"
    path.write_text("one")
    os.utime(path, ns=(0, 0))
    return path


def test_identity_of_unchanged_programs_is_constant(program: Path) -> None:
    assert identity([program, None, "/no/such/program"]) == identity([program, None, "/no/such/program"])


def test_identity_changes_with_a_program_or_variable(program: Path, tmp_path: Path) -> None:
    observed = {identity([program]), identity([program], {"FLAGS": "-O2"}), identity([]), identity([None])}
    observed.add(identity([tmp_path / "other"]))
    program.write_text("two")
    observed.add(identity([program]))
    os.utime(program, ns=(5, 5))
    observed.add(identity([program]))
    program.unlink()
    observed.add(identity([program]))
    assert len(observed) == 8


def test_identity_follows_symbolic_links(program: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(program)
    assert identity([link]) == identity([program])


def test_identity_of_the_js_lane_changes_with_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lane, folder = JsLane(), tmp_path / "bin"
    before = lane.identity(tmp_path)
    folder.mkdir()
    for name in ("node", "npm"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert lane.identity(tmp_path) != before


def test_identity_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    for name in ("node", "npm"):
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/bin/sh\ntouch '{started}'\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for lane in (StaticLane(), JsLane()):
        lane.identity(tmp_path)
    assert not started.exists()
