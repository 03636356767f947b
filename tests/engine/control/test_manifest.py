"""The manifest over the control API: in development, and of a live deployment."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.control.local_server import serve_local
from engine.control.routes.manifest import EditableManifest, blueprint
from engine.errors import SvcError
from engine.manifest.load import load
from svc_tui.background_loop import run_in_background
from svc_tui.client import ApiError, Client
from tests.svc_tui.hosted import Hosted, deploy

TEXT = """# the shop
[project]
name = "shop"

[resource.web]
lane = "static"
public = true
output = "site"
mounts = { "/api/*" = "api" } # for now

[resource.api]
lane = "static"
output = "api"
run_limit_secs = 7
memory_limit_mb = 64
egress = ["https://api.example.com"]
env = { GREETING = "hello" }
secrets = ["KEY"]
"""
WEB: dict[str, Any] = {
    "name": "web",
    "lane": "static",
    "tone": "dim",
    "kind": "image",
    "public": True,
    "mounts": [{"pattern": "/api/*", "target": "api"}],
    "run_limit_secs": 30,
    "memory_limit_mb": 128,
    "egress": [],
    "env": [],
    "secrets": [],
}
API = WEB | {
    "name": "api",
    "public": False,
    "mounts": [],
    "run_limit_secs": 7,
    "memory_limit_mb": 64,
    "egress": ["https://api.example.com"],
    "env": ["GREETING"],
    "secrets": ["KEY"],
}
PLACE = "/v1/projects/shop/manifest"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "svc.toml").write_text(TEXT)
    return tmp_path


@pytest.fixture
def client(root: Path) -> Iterator[Client]:
    routes = blueprint(EditableManifest(load(root)))
    with (
        run_in_background(lambda _: serve_local(root, [routes], announce=False), "control") as presence,
        Client(presence.url, presence.token) as client,
    ):
        yield client


def digest(root: Path) -> str:
    return hashlib.sha256((root / "svc.toml").read_bytes()).hexdigest()


def add(pattern: str, target: str = "api") -> dict[str, str]:
    return {"op": "add", "resource": "web", "pattern": pattern, "target": target}


def test_manifest_route_returns_parsed_file(client: Client, root: Path) -> None:
    result = client.call("GET", PLACE)
    assert result == {
        "project": "shop",
        "editable": True,
        "digest": digest(root),
        "front": "web",
        "resources": [WEB, API],
        "error": None,
    }


def test_invalid_file_returns_error_and_last_valid_manifest(client: Client, root: Path) -> None:
    (root / "svc.toml").write_text(TEXT.replace("run_limit_secs", "run_limit", 1))
    result = client.call("GET", PLACE)
    assert result["resources"] == [WEB, API] and result["digest"] == digest(root)
    error = result["error"]
    assert (error["line"], error["key"], error["others"]) == (14, "resource.api.run_limit", 0)
    assert "run_limit_secs" in error["hint"]


def test_missing_file_returns_error_and_last_valid_manifest(client: Client, root: Path) -> None:
    (root / "svc.toml").unlink()
    result = client.call("GET", PLACE)
    assert result["resources"] == [WEB, API]
    assert result["error"]["line"] == 0 and "does not exist" in result["error"]["message"]
    with pytest.raises(SvcError) as exc_info:
        client.call("POST", f"{PLACE}/plan", {"changes": [add("/events")]})
    assert exc_info.value.hint == result["error"]["hint"] == "Restore svc.toml."


def test_plan_returns_diff_and_writes_nothing(client: Client, root: Path) -> None:
    planned = client.call("POST", f"{PLACE}/plan", {"changes": [add("/events")]})
    assert '+mounts = { "/api/*" = "api", "/events" = "api" } # for now\n' in planned["diff"]
    assert planned["inverse"] == [{"op": "remove", "resource": "web", "pattern": "/events"}]
    assert planned["digest"] == digest(root) and (root / "svc.toml").read_text() == TEXT


def test_write_applies_planned_changes_and_inverse_undoes_them(client: Client, root: Path) -> None:
    changes = [
        add("/events"),
        {"op": "change", "resource": "web", "pattern": "/api/*", "to": "/v2/*", "target": "api"},
        {"op": "remove", "resource": "web", "pattern": "/events"},
    ]
    planned = client.call("POST", f"{PLACE}/plan", {"changes": changes})
    written = client.call("POST", f"{PLACE}/write", {"changes": changes, "digest": planned["digest"]})
    assert written["diff"] == planned["diff"] and written["digest"] == digest(root)
    assert load(root).resources["web"].mounts[0].pattern == "/v2/*"
    undo = {"changes": written["inverse"], "digest": written["digest"]}
    undone = client.call("POST", f"{PLACE}/write", undo)
    assert (root / "svc.toml").read_text() == TEXT and undone["digest"] == digest(root)


def test_change_without_effect_has_empty_diff_and_inverse(client: Client, root: Path) -> None:
    planned = client.call("POST", f"{PLACE}/plan", {"changes": [add("/api/*")]})
    assert (planned["diff"], planned["inverse"]) == ("", [])


@pytest.mark.parametrize("text", [TEXT + "\n# more\n", "rubbish ="])
def test_write_after_file_changed_is_conflict(client: Client, root: Path, text: str) -> None:
    planned = client.call("POST", f"{PLACE}/plan", {"changes": [add("/events")]})
    (root / "svc.toml").write_text(text)
    with pytest.raises(ApiError) as exc_info:
        client.call("POST", f"{PLACE}/write", {"changes": [add("/events")], "digest": planned["digest"]})
    assert exc_info.value.code == "conflict" and exc_info.value.members["status"] == 409
    assert (root / "svc.toml").read_text() == text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (add("/api/*", "web"), "api mounted at /api/* already"),
        (add("/x", "missing"), 'unknown resource "missing"'),
        (add("/x", "web"), "into itself"),
        (add("x"), "does not start with /"),
        ({"op": "remove", "resource": "web", "pattern": "/x"}, "no mount /x"),
    ],
)
def test_change_that_breaks_a_rule_is_rejected_with_reason(
    client: Client, change: dict[str, str], reason: str
) -> None:
    with pytest.raises(ApiError) as exc_info:
        client.call("POST", f"{PLACE}/plan", {"changes": [change]})
    assert reason in exc_info.value.message


def test_unknown_project_is_not_found(client: Client) -> None:
    with pytest.raises(ApiError) as exc_info:
        client.call("GET", "/v1/projects/other/manifest")
    assert exc_info.value.code == "not-found"


def test_service_returns_read_only_manifest_of_live_deployment(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    (root / "site").mkdir(parents=True)
    (root / "api").mkdir()
    (root / "site" / "index.html").write_text("one")
    (root / "svc.toml").write_text(TEXT.replace('secrets = ["KEY"]\n', ""))
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as client:
        with pytest.raises(ApiError, match="project shop not found"):
            client.call("GET", PLACE)
        deploy(client, root)
        result = client.call("GET", PLACE)
        assert result["resources"] == [WEB, API | {"secrets": []}]
        assert (result["editable"], result["digest"], result["error"]) == (False, None, None)
        with pytest.raises(SvcError, match="is read-only"):
            client.call("POST", f"{PLACE}/plan", {"changes": [add("/events")]})
