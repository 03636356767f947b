import json
from pathlib import Path

import pytest

from svc_tui.main import run

TEXT = """\
[project]
name = "shop"

# What people see.
[resource.front]
lane = "js"  # typed
mounts = { "/api/*" = "api" }

[resource.api]
lane = "js"
"""


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "below").mkdir()
    (tmp_path / "svc.toml").write_text(TEXT)
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path / "svc.toml"


def test_mount_list_prints_mounts_in_file_order(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mount", "list"]) == 0
    assert capsys.readouterr().out == "front\t/api/*\tapi\n"
    assert run(["mount", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == {"mounts": [{"resource": "front", "pattern": "/api/*", "target": "api"}]}


def test_mount_add_prints_a_diff_and_writes_the_manifest(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mount", "add", "front", "/health", "api"]) == 0
    output = capsys.readouterr()
    assert '-mounts = { "/api/*" = "api" }\n+mounts = { "/api/*" = "api", "/health" = "api" }\n' in output.out
    assert "wrote svc.toml" in output.err
    assert manifest.read_text() == TEXT.replace('"api" }', '"api", "/health" = "api" }')


def test_mount_rm_removes_the_mount_and_leaves_comments(manifest: Path) -> None:
    assert run(["mount", "rm", "front", "/api/*"]) == 0
    assert manifest.read_text() == TEXT.replace('mounts = { "/api/*" = "api" }\n', "")


def test_mount_plan_writes_nothing(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mount", "add", "front", "/health", "api", "--plan"]) == 0
    output = capsys.readouterr()
    assert "+mounts" in output.out and "nothing was written" in output.err
    assert run(["mount", "rm", "front", "/api/*", "--plan", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["written"] is False and "-mounts" in document["diff"]
    assert manifest.read_text() == TEXT


def test_mount_add_of_an_existing_mount_writes_nothing(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mount", "add", "front", "/api/*", "api"]) == 0
    output = capsys.readouterr()
    assert output.out == "" and "svc.toml is unchanged" in output.err
    assert run(["mount", "add", "front", "/api/*", "api", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": False, "diff": ""}


def test_mount_add_with_another_target_needs_replace(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write_text(TEXT + '\n[resource.new]\nlane = "go"\n')
    assert run(["mount", "add", "front", "/api/*", "new"]) == 5
    output = capsys.readouterr().err
    assert "has api mounted at /api/* already" in output and "--replace" in output
    assert run(["mount", "add", "front", "/api/*", "new", "--replace"]) == 0
    assert '"/api/*" = "new"' in manifest.read_text()
    assert run(["mount", "add", "front", "/new", "new", "--replace"]) == 0
    assert '"/new" = "new"' in manifest.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "front", "/x", "apo"], 'Did you mean "api"?'),
        (["add", "fron", "/x", "api", "--replace"], 'Did you mean "front"?'),
        (["add", "api", "/x", "front"], "cycle"),
        (["add", "front", "x", "api"], 'Write "/x".'),
        (["rm", "front", "/ap/*"], 'Did you mean "/api/*"?'),
    ],
)
def test_mount_add_that_breaks_a_rule_fails_and_writes_nothing(
    manifest: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["mount", *arguments]) == 2
    output = capsys.readouterr()
    assert words in output.err and output.out == ""
    assert manifest.read_text() == TEXT


def test_mount_with_an_invalid_manifest_fails_and_writes_nothing(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write_text(TEXT + "pubic = true\n")
    assert run(["mount", "add", "front", "/x", "api"]) == 2
    assert "svc.toml:11" in capsys.readouterr().err
