import json
import os
from pathlib import Path
from typing import Any

import pytest

from svc_tui.main import run

JS = '[project]\nname = "a"\n[resource.api]\nlane = "js"\npublic = true\n'
STATIC = '[project]\nname = "a"\n[resource.web]\nlane = "static"\npublic = true\noutput = "."\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "home ü"))
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def checks(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> dict[str, dict[str, Any]]:
    assert run(["doctor", "--json", *options]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is (code == 0)
    return {check["name"]: check for check in document["checks"]}


def test_doctor_checks_svc_and_every_lane(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = checks(capsys)
    assert {"python", "pip", "wasmtime", "SVC_HOME", "node", "componentize-js", "esbuild"} <= set(result)
    assert result["wasmtime"]["state"] == "found" and result["wasmtime"]["version"].startswith("50.")
    assert "GiB free" in result["SVC_HOME"]["version"]
    assert not result["node"]["needed"] and result["python"]["needed"]


def test_doctor_with_missing_node_reports_installable_and_succeeds(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, path_without_node: str
) -> None:
    (folder / "svc.toml").write_text(JS)
    monkeypatch.setenv("PATH", path_without_node)
    node = checks(capsys)["node"]
    assert (node["state"], node["needed"]) == ("installable", True)
    assert node["problem"] == "node is not on PATH" and node["remedy"] == "svc doctor --fix"


def test_doctor_needs_only_lanes_of_the_project(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "svc.toml").write_text(STATIC)
    result = checks(capsys)
    assert result["static"]["needed"] and not result["node"]["needed"]
    assert run(["--color", "always", "doctor"]) == 0
    output = capsys.readouterr().out
    assert "\x1b[1mjs\x1b[0m" in output and "(not used by this project)" in output


def test_doctor_with_an_unwritable_home_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(os.environ["SVC_HOME"]).write_text("a file in the way")
    home = checks(capsys, code=1)["SVC_HOME"]
    assert home["state"] == "missing" and "cannot create" in home["problem"] and home["remedy"]


def test_doctor_with_an_invalid_manifest_warns_and_checks_all_lanes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "svc.toml").write_text("[project]\nnam = 1\n")
    assert run(["doctor"]) == 0
    output = capsys.readouterr()
    assert "mistake" in output.err and "svc build" in output.err
    rows = [line.split("\t") for line in output.out.splitlines()]
    assert all(len(row) == 8 for row in rows)
    assert (rows[0][0], rows[0][-1], rows[1][-1]) == ("group", "needed", "true")
    assert ["svc", "python", "found"] in [row[:3] for row in rows]


@pytest.mark.slow
def test_doctor_fix_reports_why_an_installation_failed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, path_without_node: str
) -> None:
    (folder / "svc.toml").write_text(JS)
    monkeypatch.setenv("PATH", path_without_node)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    assert run(["doctor", "--fix"]) == 1
    output = capsys.readouterr()
    assert "js: installing Node.js" in output.err and "cannot be reached" in output.err
    assert "js\tnode\tinstallable" in output.out


@pytest.mark.slow
def test_doctor_fix_installs_missing_toolchains(
    folder: Path,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path_without_node: str,
) -> None:
    (folder / "svc.toml").write_text(JS)
    monkeypatch.setenv("PATH", path_without_node)
    home = Path(os.environ["SVC_HOME"])
    home.mkdir()
    (home / "cache").symlink_to(cache, target_is_directory=True)
    result = checks(capsys, "--fix")
    assert {result[name]["state"] for name in ("node", "componentize-js", "esbuild")} == {"managed"}
    assert "24." in result["node"]["version"]
