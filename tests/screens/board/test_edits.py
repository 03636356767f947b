import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.board.project import (
    BoardMount,
    DrawnMount,
    Manifest,
    MountEdit,
    apply_edits,
    default_pattern,
    mounts_to_draw,
    parse_edits,
    target_problems,
)
from svc_tui.client import SvcError
from tests.screens.board.resources import resource

API = BoardMount("web", "/api/*", "api")
FEED = BoardMount("web", "/feed", "feed")
NAMES = ("web", "api", "feed")


def manifest(*mounts: BoardMount) -> Manifest:
    resources = {name: resource(name, "js") for name in NAMES}
    return Manifest(resources, mounts, "digest")


def test_edit_document_matches_control_api() -> None:
    other = BoardMount("web", "/v2/*", "api")
    assert [
        edit.document for edit in (MountEdit(None, API), MountEdit(API, other), MountEdit(API, None))
    ] == [
        {"op": "add", "resource": "web", "pattern": "/api/*", "target": "api"},
        {"op": "change", "resource": "web", "pattern": "/api/*", "to": "/v2/*", "target": "api"},
        {"op": "remove", "resource": "web", "pattern": "/api/*"},
    ]


mounts = st.builds(
    BoardMount, st.sampled_from(NAMES), st.sampled_from(["/a/*", "/b/*", "/c"]), st.sampled_from(NAMES)
)


@given(st.lists(mounts, unique_by=lambda mount: (mount.source, mount.pattern)), st.data())
def test_parse_edits_round_trips_documents(given: list[BoardMount], data: st.DataObject) -> None:
    edits: list[MountEdit] = []
    for _ in range(data.draw(st.integers(0, 4))):
        now = apply_edits(given, edits)
        before = data.draw(st.sampled_from([None, *now]))
        after = data.draw(st.one_of(st.none(), mounts) if before else mounts)
        if after is not None and before is not None:
            after = BoardMount(before.source, after.pattern, after.target)
        others = {(each.source, each.pattern) for each in now if each != before}
        if after is not None and ((after.source, after.pattern) in others or after == before):
            continue
        edits.append(MountEdit(before, after))
    assert parse_edits([edit.document for edit in edits], given) == edits


def test_removed_mount_is_drawn_until_saved() -> None:
    changed = BoardMount("web", "/v2/*", "api")
    result = mounts_to_draw([API, FEED], [MountEdit(API, changed)])
    assert result == [DrawnMount(API, "removed"), DrawnMount(FEED), DrawnMount(changed, "added")]


def test_parse_edits_of_missing_mount_raises() -> None:
    with pytest.raises(SvcError, match="web no longer has the mount /api/\\*"):
        parse_edits([MountEdit(API, None).document], [FEED])


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
