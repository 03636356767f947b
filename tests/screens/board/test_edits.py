from screens.board.project import (
    BoardMount,
    DrawnMount,
    Manifest,
    apply_edits,
    default_pattern,
    mounts_to_draw,
    target_problems,
)
from tests.screens.board.resources import resource

API = BoardMount("web", "/api/*", "api")
FEED = BoardMount("web", "/feed", "feed")
NAMES = ("web", "api", "feed")


def manifest(*mounts: BoardMount) -> Manifest:
    resources = {name: resource(name, "js") for name in NAMES}
    return Manifest(resources, mounts, "digest")


def test_edits_apply_in_order() -> None:
    added = {"op": "add", "resource": "web", "pattern": "/v1/*", "target": "api"}
    moved = {"op": "change", "resource": "web", "pattern": "/v1/*", "to": "/v2/*", "target": "feed"}
    removed = {"op": "remove", "resource": "web", "pattern": "/feed"}
    assert apply_edits([API, FEED], [added, moved, removed]) == [API, BoardMount("web", "/v2/*", "feed")]


def test_change_of_a_missing_mount_adds_one() -> None:
    moved = {"op": "change", "resource": "web", "pattern": "/v1/*", "to": "/v2/*", "target": "api"}
    removed = {"op": "remove", "resource": "web", "pattern": "/v1/*"}
    assert apply_edits([API], [moved, removed]) == [API, BoardMount("web", "/v2/*", "api")]


def test_mount_at_a_used_pattern_is_drawn_beside_the_other() -> None:
    added = {"op": "add", "resource": "web", "pattern": "/feed", "target": "api"}
    assert apply_edits([FEED], [added, added]) == [FEED, BoardMount("web", "/feed", "api")]


def test_removed_mount_is_drawn_until_saved() -> None:
    edit = {"op": "change", "resource": "web", "pattern": API.pattern, "to": "/v2/*", "target": "api"}
    changed = BoardMount("web", "/v2/*", "api")
    result = mounts_to_draw([API, FEED], [edit])
    assert result == [DrawnMount(API, "removed"), DrawnMount(FEED), DrawnMount(changed, "added")]


def test_target_problems_reject_self_and_cycles() -> None:
    now = [API, BoardMount("api", "/feed", "feed")]
    assert target_problems(manifest(), now, "web") == {
        "web": "a resource cannot be mounted in itself",
        "api": "",
        "feed": "",
    }
    assert target_problems(manifest(), now, "feed") == {
        "web": "this would create a cycle: feed → web → api → feed",
        "api": "this would create a cycle: feed → api → feed",
        "feed": "a resource cannot be mounted in itself",
    }


def test_default_pattern_is_unused() -> None:
    assert default_pattern([], "web", "api") == "/api/*"
    assert default_pattern([API, BoardMount("web", "/api-2/*", "feed")], "web", "api") == "/api-3/*"
    assert default_pattern([API], "feed", "api") == "/api/*"
