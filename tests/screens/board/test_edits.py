import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.board.edits import Edit, Shown, applied, default_pattern, read, shown, targets
from screens.board.project import Manifest, Mount, Resource
from svc_tui.client import SvcError

API = Mount("web", "/api/*", "api")
FEED = Mount("web", "/feed", "feed")
NAMES = ("web", "api", "feed")


def manifest(*mounts: Mount) -> Manifest:
    resources = {name: Resource(name, "js", "component", True, 30, 128, (), (), ()) for name in NAMES}
    return Manifest(resources, mounts, "digest")


def test_edits_are_sent_as_the_control_api_takes_them() -> None:
    other = Mount("web", "/v2/*", "api")
    assert [edit.document for edit in (Edit(None, API), Edit(API, other), Edit(API, None))] == [
        {"op": "add", "resource": "web", "pattern": "/api/*", "target": "api"},
        {"op": "change", "resource": "web", "pattern": "/api/*", "to": "/v2/*", "target": "api"},
        {"op": "remove", "resource": "web", "pattern": "/api/*"},
    ]


mounts = st.builds(
    Mount, st.sampled_from(NAMES), st.sampled_from(["/a/*", "/b/*", "/c"]), st.sampled_from(NAMES)
)


@given(st.lists(mounts, unique_by=lambda mount: (mount.source, mount.pattern)), st.data())
def test_edits_come_back_from_their_documents(given: list[Mount], data: st.DataObject) -> None:
    edits: list[Edit] = []
    for _ in range(data.draw(st.integers(0, 4))):
        now = applied(given, edits)
        before = data.draw(st.sampled_from([None, *now]))
        after = data.draw(st.one_of(st.none(), mounts) if before else mounts)
        if after is not None and before is not None:
            after = Mount(before.source, after.pattern, after.target)
        others = {(each.source, each.pattern) for each in now if each != before}
        if after is not None and ((after.source, after.pattern) in others or after == before):
            continue
        edits.append(Edit(before, after))
    assert read([edit.document for edit in edits], given) == edits


def test_what_goes_stays_in_the_picture_until_it_is_gone() -> None:
    changed = Mount("web", "/v2/*", "api")
    found = shown([API, FEED], [Edit(API, changed)])
    assert found == [Shown(API, "removed"), Shown(FEED), Shown(changed, "added")]


def test_an_edit_of_a_mount_that_is_gone_says_so() -> None:
    with pytest.raises(SvcError, match="web has no mount /api/\\* any more"):
        read([Edit(API, None).document], [FEED])


def test_a_target_is_another_resource_that_does_not_lead_back() -> None:
    now = [API, Mount("api", "/feed", "feed")]
    assert targets(manifest(), now, "web") == {
        "web": "a Resource is not mounted into itself",
        "api": "",
        "feed": "",
    }
    assert targets(manifest(), now, "feed") == {
        "web": "that would go round in a circle: feed → web → api → feed",
        "api": "that would go round in a circle: feed → api → feed",
        "feed": "a Resource is not mounted into itself",
    }


def test_the_pattern_that_is_proposed_is_free() -> None:
    assert default_pattern([], "web", "api") == "/api/*"
    assert default_pattern([API, Mount("web", "/api-2/*", "feed")], "web", "api") == "/api-3/*"
    assert default_pattern([API], "feed", "api") == "/api/*"
