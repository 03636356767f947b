import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_tui.client import Client
from svc_tui.main import run
from tests.svc_tui.hosted import Hosted

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
    assert capsys.readouterr().out == "resource\tpattern\ttarget\nfront\t/api/*\tapi\n"
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
        (["add", "fron", "/x", "api", "--replace"], 'Did you mean "front"?'),
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


DEPLOYED = """\
[project]
name = "shop"

# What people see.
[resource.front]
lane = "static"  # typed
output = "site"
public = true
mounts = { "/api/*" = "api" } # for now

[resource.api]
lane = "static"
output = "site"
"""


class Shop:
    """A deployed project; the current folder is its folder."""

    def __init__(self, manifest: Path, client: Client) -> None:
        self.manifest, self._client = manifest, client

    def draw(self, op: str, pattern: str, **more: str) -> None:
        """Change a mount of front as the Board does."""
        place = "/v1/projects/shop/manifest"
        changes = [{"op": op, "resource": "front", "pattern": pattern, **more}]
        digest = self._client.call("GET", place)["digest"]
        self._client.call("POST", f"{place}/write", {"changes": changes, "digest": digest})


@pytest.fixture
def shop(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    (tmp_path / "shop" / "site").mkdir(parents=True)
    (tmp_path / "shop" / "site" / "index.html").write_text("one")
    manifest = tmp_path / "shop" / "svc.toml"
    manifest.write_text(DEPLOYED)
    monkeypatch.chdir(manifest.parent)
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        monkeypatch.setenv("SVC_URL", hosted.control)
        monkeypatch.setenv("SVC_TOKEN", hosted.token)
        assert run(["deploy"]) == 0
        yield Shop(manifest, client)


def test_drawn_mounts_are_drift_until_pulled(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.draw("add", "/x/*", target="api")
    shop.draw("remove", "/api/*")
    capsys.readouterr()
    assert run(["deploy", "--plan"]) == 0
    drift = capsys.readouterr().out
    assert "! front  /x/* → api, drawn by ann in 20" in drift and "is not in svc.toml\n" in drift
    assert "! front  /api/*, removed by ann in 20" in drift and "is still in svc.toml\n" in drift
    assert run(["deploy", "--plan", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(each["pattern"], each["target"]) for each in document["drift"]] == [
        ("/x/*", "api"),
        ("/api/*", ""),
    ]
    assert document["drift"][0]["message"].startswith("front: /x/* → api, drawn by ann")
    assert all("svc mount pull" in each["hint"] for each in document["drift"])

    assert run(["deploy"]) != 0
    errors = capsys.readouterr().err
    assert "deploy blocked" in errors and "svc mount pull" in errors and "built in" not in errors

    assert run(["mount", "pull"]) == 2
    assert "Pass --yes." in capsys.readouterr().err
    assert run(["mount", "pull", "--plan"]) == 0
    assert shop.manifest.read_text() == DEPLOYED
    planned = capsys.readouterr().out
    assert run(["mount", "pull", "--yes"]) == 0
    output = capsys.readouterr()
    assert output.out == planned and "wrote svc.toml" in output.err
    assert shop.manifest.read_text() == DEPLOYED.replace("/api/*", "/x/*")

    assert run(["deploy", "--plan"]) == 0
    output = capsys.readouterr()
    assert output.out == "" and "is up to date" in output.err
    assert run(["mount", "pull"]) == 0
    assert "svc.toml is unchanged" in capsys.readouterr().err
    assert run(["deploy"]) == 0
    assert "nothing changed" in capsys.readouterr().err
    assert run(["deployments"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("  ann  unmount front:/api/* (Console)")
    assert lines[2].endswith("  ann  mount front:/x/* → api (Console)")


def test_pull_of_a_changed_pattern_preserves_the_comment_of_its_line(shop: Shop) -> None:
    table = '[resource.front.mounts]\n"/api/*" = "api" # for now\n'
    shop.manifest.write_text(DEPLOYED.replace('mounts = { "/api/*" = "api" } # for now\n', table))
    shop.draw("change", "/api/*", to="/v2/*", target="api")
    assert run(["mount", "pull", "--yes"]) == 0
    assert table.replace("/api/*", "/v2/*") in shop.manifest.read_text()


def test_plan_after_a_pull_ignores_the_order_of_mounts(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.draw("add", "/a", target="api")
    shop.draw("add", "/b", target="api")
    shop.draw("remove", "/api/*")
    shop.draw("add", "/api/*", target="api")
    shop.draw("change", "/a", to="/c", target="api")
    assert run(["mount", "pull", "--yes"]) == 0
    capsys.readouterr()
    assert run(["deploy", "--plan"]) == 0
    output = capsys.readouterr()
    assert output.out == "" and "is up to date" in output.err


def test_deploy_discards_drawn_mounts_on_request(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.draw("add", "/x/*", target="api")
    assert run(["deploy", "--discard-mounts"]) == 0
    capsys.readouterr()
    assert run(["deploy", "--plan"]) == 0
    assert "is up to date" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("api", "new", "is not in svc.toml, which has no resource api"),
        ('"/api/*"', '"/x/*" = "more", "/api/*"', "is not in svc.toml, where it leads to more"),
        ('"/api/*" = "api"', '"/api/*" = "more"', "is still in svc.toml, where it leads to more"),
    ],
)
def test_pull_that_conflicts_with_local_edits_names_them_and_writes_nothing(
    shop: Shop, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    shop.draw("add", "/x/*", target="api")
    shop.draw("remove", "/api/*")
    local = DEPLOYED.replace(old, new) + '[resource.more]\nlane = "static"\noutput = "site"\n'
    shop.manifest.write_text(local)
    capsys.readouterr()
    assert run(["mount", "pull", "--yes"]) == 5
    output = capsys.readouterr()
    assert words in output.err
    assert output.out == "" and shop.manifest.read_text() == local
