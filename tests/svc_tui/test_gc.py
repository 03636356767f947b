"""`svc gc` on a data directory with write permission."""

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from engine.deploy.gc import GRACE_NS
from svc_tui.main import run

pytestmark = pytest.mark.slow


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A data directory with a login, an unreferenced blob and an unreferenced unpacked package."""
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "home ü"))
    for name in ("SVC_URL", "SVC_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data ü"
    assert run(["login", "--data", str(folder)]) == 0
    blob = folder / "blobs" / sha256(b"garbage").hexdigest()
    blob.write_bytes(b"garbage")
    unpacked = folder / "unpacked" / ("a" * 64)
    unpacked.mkdir(parents=True)
    for path in (blob, unpacked):
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 2 * GRACE_NS))
    capsys.readouterr()
    return folder


def test_gc_plan_then_gc_then_nothing_to_remove(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gc", "--plan"]) == 0
    planned = capsys.readouterr().out
    assert "blobs              1 would be removed, 7 B" in planned
    assert "unpacked packages  1 would be removed" in planned
    assert run(["gc", "--plan", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"plan": True, "blobs": 1, "bytes": 7, "uploads": 0, "unpacked": 1, "machine_code": 0}
    assert len(list((data / "unpacked").iterdir())) == len(list((data / "blobs").iterdir())) == 1
    assert run(["gc"]) == 0
    assert "blobs              1 removed, 7 B" in capsys.readouterr().out
    assert list((data / "unpacked").iterdir()) == list((data / "blobs").iterdir()) == []
    assert run(["gc"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "" and "nothing" in printed.err


def test_gc_beside_damaged_tables_names_their_project(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = data / "projects" / "shop" / "tables"
    tables.mkdir(parents=True)
    (tables / "tables.db").write_bytes(b"damaged" * 1000)
    assert run(["gc"]) == 1
    printed = capsys.readouterr().err
    assert "nothing was removed: the files of shop are unknown" in printed and "is damaged" in printed
    assert len(list((data / "unpacked").iterdir())) == len(list((data / "blobs").iterdir())) == 1


def test_gc_without_a_session_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SVC_HOME", str(tmp_path))
    for name in ("SVC_URL", "SVC_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert run(["gc"]) == 3
    assert "svc login" in capsys.readouterr().err
