"""The manifest over the control API: in development, and of a live deployment."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.control.local_server import serve_local
from engine.control.routes.manifest import EditableManifest, blueprint
from engine.errors import SvcError
from engine.manifest.load import load
from svc_tui.background_loop import run_in_background
from svc_tui.client import ApiError, Client
from tests.svc_tui.hosted import PASSWORD, Hosted, deploy

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
    "fallback": "",
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
        "drawn": [],
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


def test_change_that_breaks_a_rule_is_rejected_with_reason(client: Client) -> None:
    with pytest.raises(ApiError, match="does not start with /"):
        client.call("POST", f"{PLACE}/plan", {"changes": [add("x")]})


def test_unknown_project_is_not_found(client: Client) -> None:
    with pytest.raises(ApiError) as exc_info:
        client.call("GET", "/v1/projects/other/manifest")
    assert exc_info.value.code == "not-found"


@dataclass
class Service:
    """A service with the shop deployed, its folder, and its owner."""

    hosted: Hosted
    root: Path
    owner: Client

    def draw(self, *changes: dict[str, str], client: Client | None = None) -> dict[str, Any]:
        client = client or self.owner
        planned = client.call("POST", f"{PLACE}/plan", {"changes": changes})
        body = {"changes": changes, "digest": planned["digest"]}
        return client.call("POST", f"{PLACE}/write", body) | {"planned": planned}

    def user(self, name: str, role: str) -> Client:
        roles = {"password": PASSWORD, "roles": {"shop": role}}
        self.owner.call("PUT", f"/v1/users/{name}", roles)
        credentials = {"user": name, "password": PASSWORD}
        return Client(self.hosted.control, self.owner.call("POST", "/v1/login", credentials)["token"])

    def history(self) -> list[tuple[str, str]]:
        deployments = self.owner.call("GET", "/v1/projects/shop/deployments")["deployments"]
        return [(each["by"], each["message"]) for each in deployments]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    root = tmp_path / "shop"
    for name in ("site", "api"):
        (root / name).mkdir(parents=True)
        (root / name / "index.html").write_text(name)
    (root / "api" / "events").mkdir()
    (root / "api" / "events" / "index.html").write_text("events")
    (root / "svc.toml").write_text(TEXT.replace('secrets = ["KEY"]\n', ""))
    with Hosted(tmp_path / "data") as hosted, hosted.claim() as owner:
        with pytest.raises(ApiError, match="project shop not found"):
            owner.call("GET", PLACE)
        deploy(owner, root, message="first")
        yield Service(hosted, root, owner)


def test_service_returns_manifest_of_live_deployment(service: Service) -> None:
    result = service.owner.call("GET", PLACE)
    assert result["resources"] == [WEB, API | {"secrets": []}]
    assert (result["editable"], result["front"], result["error"], result["drawn"]) == (True, "web", None, [])
    with service.user("eve", "viewer") as viewer:
        result = viewer.call("GET", PLACE)
        assert (result["editable"], result["digest"]) == (False, None)
        with pytest.raises(ApiError, match="requires the role deployer"):
            service.draw(add("/events/*"), client=viewer)


def test_drawn_mount_activates_deployment_with_author_and_rollback_removes_it(service: Service) -> None:
    assert service.hosted.get("/events/").status_code == 404
    with service.user("bob", "deployer") as bob:
        drawn = service.draw(add("/events/*"), client=bob)
    assert drawn["diff"] == drawn["planned"]["diff"]
    assert drawn["diff"].splitlines()[3:] == [
        " [resource.web]",
        '-mounts = { "/api/*" = "api" }',
        '+mounts = { "/api/*" = "api", "/events/*" = "api" }',
        " ",
    ]
    assert drawn["inverse"] == [{"op": "remove", "resource": "web", "pattern": "/events/*"}]
    assert service.hosted.get("/events/").text == "events"
    now = service.owner.call("GET", PLACE)
    assert now["digest"] == drawn["digest"] != drawn["planned"]["digest"]
    (mount,) = now["drawn"]
    live = service.owner.call("GET", "/v1/projects/shop")["deployment"]
    assert mount == {
        "resource": "web",
        "pattern": "/events/*",
        "target": "api",
        "before": [""],
        "by": "bob",
        "deployment": live["id"],
    }
    assert service.history() == [("bob", "mount web:/events/* → api (Console)"), ("ann", "first")]
    deployments = service.owner.call("GET", "/v1/projects/shop/deployments")
    back = {"deployment": deployments["deployments"][1]["id"], "revision": deployments["revision"]}
    service.owner.call("POST", "/v1/projects/shop/rollback", back)
    assert service.owner.call("GET", PLACE)["drawn"] == []
    assert service.hosted.get("/events/").status_code == 404


def test_inverse_of_drawn_mounts_restores_them(service: Service) -> None:
    before = service.owner.call("GET", PLACE)
    changes = (
        {"op": "change", "resource": "web", "pattern": "/api/*", "to": "/v2/*", "target": "api"},
        add("/events"),
        {"op": "remove", "resource": "web", "pattern": "/events"},
    )
    drawn = service.draw(*changes)
    assert service.draw(*drawn["inverse"])["diff"]
    after = service.owner.call("GET", PLACE)
    assert after["resources"] == before["resources"]
    assert {(each["pattern"], each["target"], *each["before"]) for each in after["drawn"]} == {
        ("/api/*", "api", "api", ""),
        ("/v2/*", "", "", "api"),
    }
    assert service.history()[0] == ("ann", "unmount web:/v2/*; mount web:/api/* → api (Console)")


def test_drawn_change_without_effect_activates_nothing(service: Service) -> None:
    drawn = service.draw(add("/api/*"))
    assert (drawn["diff"], drawn["inverse"], drawn["digest"]) == ("", [], drawn["planned"]["digest"])
    assert service.history() == [("ann", "first")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (add("/api/*", "web"), "api mounted at /api/\\* already"),
        (add("/x", "missing"), 'unknown resource "missing"'),
        (add("/x", "web"), "into itself"),
        (add("x"), "does not start with /"),
        (add("/%61pi/*"), "is the same path as"),
        ({"op": "add", "resource": "api", "pattern": "/x", "target": "web"}, "cycle: web → api → web"),
        ({"op": "remove", "resource": "web", "pattern": "/x"}, "no mount /x"),
        ({"op": "change", "resource": "web", "pattern": "/x", "to": "/y", "target": "api"}, "no mount /x"),
        ({"op": "add-origin", "resource": "web", "origin": "https://a.example"}, "with a deploy only"),
    ],
)
def test_drawn_mount_that_breaks_a_rule_is_rejected(
    service: Service, change: dict[str, str], reason: str
) -> None:
    with pytest.raises(ApiError, match=reason):
        service.draw(change)
    assert service.history() == [("ann", "first")]


def test_second_of_two_concurrent_edges_is_a_conflict_that_names_the_first(service: Service) -> None:
    changes = [add("/mine")]
    planned = service.owner.call("POST", f"{PLACE}/plan", {"changes": changes})
    with service.user("bob", "deployer") as bob:
        service.draw(add("/events"), client=bob)
    with pytest.raises(ApiError) as exc_info:
        service.owner.call("POST", f"{PLACE}/write", {"changes": changes, "digest": planned["digest"]})
    assert exc_info.value.members["status"] == 409
    assert exc_info.value.message.startswith("bob deployed ")
    assert "UTC (mount web:/events → api (Console)), after" in exc_info.value.message
    assert len(service.history()) == 2


def test_one_of_two_simultaneous_edges_wins(service: Service) -> None:
    digest = service.owner.call("GET", PLACE)["digest"]
    bodies = [{"changes": [add(pattern)], "digest": digest} for pattern in ("/one", "/two")]

    def write(body: dict[str, Any]) -> str:
        try:
            with Client(service.hosted.control, service.hosted.token) as client:
                client.call("POST", f"{PLACE}/write", body)
        except ApiError as error:
            return error.code
        return ""

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(write, bodies)) == ["", "conflict"]
    assert len(service.history()) == 2


def test_deploy_that_would_drop_a_drawn_mount_is_rejected(service: Service) -> None:
    planned = service.owner.call("GET", PLACE)
    assert planned["drawn"] == []
    service.draw(add("/events"))
    with pytest.raises(ApiError) as exc_info:
        deploy(service.owner, service.root)
    assert exc_info.value.code == "policy"
    assert "web: /events → api, drawn by ann in " in exc_info.value.message
    assert "svc mount pull" in exc_info.value.hint and "--discard-mounts" in exc_info.value.hint
    manifest = service.root / "svc.toml"
    text = manifest.read_text()
    manifest.write_text(text.replace('"/api/*" = "api"', '"/api/*" = "api", "/events" = "api"'))
    deploy(service.owner, service.root, message="pulled")
    assert service.owner.call("GET", PLACE)["drawn"] == []
    service.draw({"op": "remove", "resource": "web", "pattern": "/events"})
    with pytest.raises(ApiError, match=r"web: /events, removed by ann in \S+, is still in svc\.toml"):
        deploy(service.owner, service.root)
    deploy(service.owner, service.root, discard=True)
    assert service.owner.call("GET", PLACE)["drawn"] == []


def test_edge_drawn_after_the_plan_of_a_deploy_is_a_conflict(service: Service) -> None:
    revision = service.owner.call("GET", "/v1/projects/shop/deployments")["revision"]
    service.draw(add("/events"))
    with pytest.raises(ApiError, match="mount web:/events → api") as exc_info:
        deploy(service.owner, service.root, revision=revision)
    assert exc_info.value.code == "conflict"


def test_drawn_mount_that_fails_the_health_check_is_not_activated(service: Service) -> None:
    (service.root / "site" / "health").write_text("fine")
    manifest = service.root / "svc.toml"
    manifest.write_text(manifest.read_text().replace('name = "shop"', 'name = "shop"\ncheck = "/health"'))
    deploy(service.owner, service.root)
    with pytest.raises(ApiError, match="web responded to /health with 404"):
        service.draw(add("/health"))
    assert service.hosted.get("/health").text == "fine"
    assert len(service.history()) == 2
