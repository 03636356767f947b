import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import SvcError
from engine.manifest.edit import (
    AddMount,
    Change,
    ChangeMount,
    EditRefused,
    ManifestChanged,
    RemoveMount,
    plan,
    write,
)
from engine.manifest.load import load
from engine.manifest.problems import ManifestError

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
HEAD = '[project]\nname = "shop"\n\n'
FRONT = '[resource.front]\nlane = "js"\n'
API = '\n# Private.\n[resource.api]\nlane = "js"\n'
ADD = AddMount("front", "/x", "api")


def edited(root: Path, text: str, *changes: Change) -> str:
    """Write changes to a manifest; return its new text."""
    (root / "svc.toml").write_bytes(text.encode())
    write(plan(root, changes))
    return (root / "svc.toml").read_bytes().decode()


def mounts(root: Path, resource: str = "front") -> dict[str, str]:
    return {mount.pattern: mount.target for mount in load(root).resources[resource].mounts}


# What stands in [resource.front], and what stands there with a mount more.
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'mounts = { "/x" = "api" }\n'),
        ("mounts = {} # none\n", 'mounts = { "/x" = "api" } # none\n'),
        ("mounts = { }\n", 'mounts = { "/x" = "api" }\n'),
        ('mounts = {"/a"="api"}\n', 'mounts = {"/a"="api", "/x" = "api"}\n'),
        ('mounts = { "/a" = "api" } # c\n', 'mounts = { "/a" = "api", "/x" = "api" } # c\n'),
        (
            '  mounts."/a" = "api" # c\npublic = true\n',
            '  mounts."/a" = "api" # c\n  mounts."/x" = "api"\npublic = true\n',
        ),
        (
            "# nothing yet\n[resource.front.mounts] # m\n",
            '# nothing yet\n[resource.front.mounts] # m\n"/x" = "api"\n',
        ),
        (
            '[resource.front.mounts]\n\t"/a" = "api" # a\n# the end\n',
            '[resource.front.mounts]\n\t"/a" = "api" # a\n\t"/x" = "api"\n# the end\n',
        ),
    ],
)
def test_added_mount_joins_existing_mounts(tmp_path: Path, before: str, after: str) -> None:
    result = edited(tmp_path, HEAD + FRONT + before + API, ADD)
    assert result == HEAD + FRONT + after + API
    assert mounts(tmp_path)["/x"] == "api"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'resource.front = { lane = "js", public = true }',
            'resource.front = { lane = "js", public = true, mounts = { "/x" = "api" } }',
        ),
        (
            'resource.front = { lane = "js", mounts."/a" = "api" }',
            'resource.front = { lane = "js", mounts."/a" = "api", mounts."/x" = "api" }',
        ),
        (
            'resource.front.lane = "js"',
            'resource.front.lane = "js"\nresource.front.mounts = { "/x" = "api" }',
        ),
        (
            'resource.front.lane = "js"\nresource . "front".mounts."/a" = "api"',
            'resource.front.lane = "js"\nresource . "front".mounts."/a" = "api"\n'
            'resource . "front".mounts."/x" = "api"',
        ),
    ],
)
def test_added_mount_extends_inline_resource(tmp_path: Path, before: str, after: str) -> None:
    rest = '\nresource.api.lane = "js"\nproject.name = "shop"'
    assert edited(tmp_path, before + rest, ADD) == after + rest
    assert mounts(tmp_path)["/x"] == "api"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('mounts = { "/x" = "api" }\n', ""),
        ('mounts = { "/x" = "api" } # why\n', "mounts = {} # why\n"),
        ('mounts = { "/x" = "api", "/a" = "api" }\n', 'mounts = { "/a" = "api" }\n'),
        ('mounts = { "/a" = "api" , "/x" = "api" }\n', 'mounts = { "/a" = "api" }\n'),
        ('# above\nmounts."/x" = "api" # x\n# below\n', "# above\n# below\n"),
        ('[resource.front.mounts] # m\n"/x" = "api"\n\n# end\n', "[resource.front.mounts] # m\n\n# end\n"),
    ],
)
def test_removed_mount_leaves_other_text(tmp_path: Path, before: str, after: str) -> None:
    text = edited(tmp_path, HEAD + FRONT + before + API, RemoveMount("front", "/x"))
    assert text == HEAD + FRONT + after + API
    assert "/x" not in mounts(tmp_path)


def test_last_mount_of_inline_resource_removes_key(tmp_path: Path) -> None:
    rest = '\nresource.api.lane = "js"\nproject.name = "shop"\n'
    before = 'resource.front = { mounts = { "/x" = "api" }, lane = "js" }'
    result = edited(tmp_path, before + rest, RemoveMount("front", "/x"))
    assert result == 'resource.front = { lane = "js" }' + rest


def test_changed_mount_is_replaced_in_place(tmp_path: Path) -> None:
    more = API + '[resource.new]\nlane = "go"\n'
    text = HEAD + FRONT + "mounts = { '/x'   =  'api' , \"/a\"=\"api\" } # c\n" + more
    result = edited(tmp_path, text, ChangeMount("front", "/x", "/y/*", "new"))
    assert result == HEAD + FRONT + 'mounts = { "/y/*"   =  "new" , "/a"="api" } # c\n' + more
    assert mounts(tmp_path) == {"/y/*": "new", "/a": "api"}


def test_several_changes_form_one_edit(tmp_path: Path) -> None:
    changes = [ADD, AddMount("front", "/y", "api"), RemoveMount("front", "/x")]
    assert 'mounts = { "/y" = "api" }\n' in edited(tmp_path, HEAD + FRONT + API, *changes)


def test_existing_mount_changes_nothing(tmp_path: Path) -> None:
    text = HEAD + FRONT + 'mounts = { "/x" = "api" }\n' + API
    assert edited(tmp_path, text, ADD) == text
    assert plan(tmp_path, [ADD]).diff == ""


def test_diff_ignores_line_ending_style(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_bytes((HEAD + FRONT).replace("\n", "\r\n").encode() + API.encode()[:-1])
    lines = plan(tmp_path, [ADD]).diff.splitlines()
    assert lines[:2] == ["--- svc.toml", "+++ svc.toml"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ['+mounts = { "/x" = "api" }']


def test_diff_marks_missing_final_newline(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_text(HEAD + API + FRONT.rstrip("\n"))
    diff = plan(tmp_path, [ADD]).diff
    assert diff.endswith('+mounts = { "/x" = "api" }\n\\ No newline at end of file\n')


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (AddMount("frnt", "/x", "api"), 'unknown resource "frnt"', "front"),
        (AddMount("front", "/x", "apo"), 'unknown resource "apo"', 'Did you mean "api"?'),
        (AddMount("front", "x", "api"), "does not start with /", '"/x"'),
        (AddMount("front", '/"', "api"), "not how a path is sent", "%22"),
        (AddMount("front", "/\udcff\n", "api"), "not how a path is sent", ""),
        (AddMount("front", "/x", "front"), "mounted into itself", "another resource"),
        (AddMount("front", "/%61", "api"), "the same path", "Remove one"),
        (AddMount("front", "/a", "other"), "mounted at /a already", "--replace"),
        (AddMount("api", "/x", "front"), "cycle: front → api → front", "Remove one"),
        (RemoveMount("front", "/b"), "no mount /b", "/a"),
        (RemoveMount("api", "/b"), "no mount /b", "no mounts"),
        (ChangeMount("front", "/b", "/c", "api"), "no mount /b", "/a"),
        (ChangeMount("front", "/a", "/c/*/d", "api"), "last segment", "prefix"),
    ],
)
def test_invalid_change_is_rejected_and_writes_nothing(
    tmp_path: Path, change: Change, message: str, hint: str
) -> None:
    text = HEAD + FRONT + 'mounts = { "/a" = "api" }\n' + API + '[resource.other]\nlane = "go"\n'
    (tmp_path / "svc.toml").write_text(text)
    with pytest.raises(EditRefused) as exc_info:
        plan(tmp_path, [change])
    assert message in exc_info.value.message and hint in exc_info.value.hint
    assert (tmp_path / "svc.toml").read_text() == text


def test_change_to_occupied_path_is_conflict(tmp_path: Path) -> None:
    text = HEAD + FRONT + 'mounts = { "/a" = "api", "/b" = "api" }\n' + API
    (tmp_path / "svc.toml").write_text(text)
    with pytest.raises(EditRefused, match="mounted at /b already") as exc_info:
        plan(tmp_path, [ChangeMount("front", "/a", "/b", "api")])
    assert exc_info.value.code == "conflict"


def test_edit_of_invalid_manifest_raises(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_text(HEAD + FRONT + "pubic = true\n" + API)
    with pytest.raises(ManifestError, match="pubic"):
        plan(tmp_path, [ADD])


def test_write_after_concurrent_edit_raises(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_text(HEAD + FRONT + API)
    edit = plan(tmp_path, [ADD])
    (tmp_path / "svc.toml").write_text(HEAD + FRONT + API + "# mine\n")
    with pytest.raises(ManifestChanged, match="meanwhile"):
        write(edit)
    assert (tmp_path / "svc.toml").read_text().endswith("# mine\n")


def test_write_preserves_permissions_and_symlink(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "shop.toml"
    real.parent.mkdir()
    real.write_text(HEAD + FRONT + API)
    real.chmod(0o640)
    (tmp_path / "svc.toml").symlink_to(real)
    write(plan(tmp_path, [ADD]))
    assert (tmp_path / "svc.toml").is_symlink() and '"/x"' in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [path.name for path in real.parent.iterdir()] == ["shop.toml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_write_by_root_preserves_owner(tmp_path: Path) -> None:
    path = tmp_path / "svc.toml"
    path.write_text(HEAD + FRONT + API)
    os.chown(path, 12345, 12346)
    write(plan(tmp_path, [ADD]))
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_concurrent_writes_succeed_once_and_others_raise(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_text(HEAD + FRONT + API)
    edits = {pattern: plan(tmp_path, [AddMount("front", pattern, "api")]) for pattern in PATTERNS}

    def wins(pattern: str) -> bool:
        try:
            write(edits[pattern])
        except ManifestChanged:
            return False
        return True

    with ThreadPoolExecutor(len(PATTERNS)) as pool:
        won = [pattern for pattern, wins in zip(PATTERNS, pool.map(wins, PATTERNS), strict=True) if wins]
    assert len(won) == 1 and mounts(tmp_path) == {won[0]: "api"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_write_to_unwritable_folder_raises(tmp_path: Path) -> None:
    (tmp_path / "svc.toml").write_text(HEAD + FRONT + API)
    edit = plan(tmp_path, [ADD])
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(SvcError, match="cannot write"):
            write(edit)
    finally:
        tmp_path.chmod(0o700)


COMMENT = st.sampled_from(["", "", "\n", '# a [b] = "c\n', "  # é { }\n\n"])
TAIL = st.sampled_from(["", "  # right", "\t", " # } , ="])
PATTERNS = ["/a", "/b/*", "/c%20d", "/*"]
KEY = st.sampled_from(['"{}"', "'{}'"])


@st.composite
def manifests(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """Generate a manifest in any TOML notation, with comments, and the mounts of `front`."""
    patterns = draw(st.lists(st.sampled_from(PATTERNS), unique=True, max_size=3))
    target = {pattern: draw(st.sampled_from(["api", "new"])) for pattern in patterns}
    keys = {pattern: draw(KEY).format(pattern) for pattern in patterns}
    space = draw(st.sampled_from(["", " "]))
    pairs = f"{space},{space}".join(f'{keys[p]}{space}={space}"{target[p]}"' for p in patterns)
    inline = "{" + space + pairs + space + "}"

    def note() -> str:
        return draw(COMMENT)

    def line(text: str) -> str:
        return note() + draw(st.sampled_from(["", "  "])) + text + draw(TAIL) + "\n"

    own = line('lane = "js"') + line('env = { A = "[x]", B = """\n# not one\n""" }')
    others = line("[project]") + line('name = "shop"') + line("[resource.api]") + line('lane = "go"')
    others += line("[resource.new]") + line('lane = "go"') + line("public = true")
    dotted = [f'mounts . {keys[p]} = "{target[p]}"' for p in patterns]
    way = draw(st.sampled_from(["inline", "dotted", "header", "late", "one line", "far"]))
    if way == "inline":
        text = line("[resource.front]") + own + line(f"mounts = {inline}") + others
    elif way == "dotted":
        text = line("[resource.front]") + own + "".join(map(line, dotted)) + line("public = true") + others
    elif way in {"header", "late"}:
        table = line("[resource.front.mounts]") + "".join(
            line(f'{keys[p]} = "{target[p]}"') for p in patterns
        )
        rest = table + others if way == "header" else others + table
        text = line("[resource.front]") + own + rest
    elif way == "one line":
        text = line(f'resource.front = {{ lane = "js", mounts = {inline}, public = true }}')
        text += line('resource.api.lane = "go"') + line('resource.new.lane = "go"') + line("[project]")
        text += line('name = "shop"')
    else:
        text = line("[resource]") + line('front.lane = "js"')
        text += "".join(line(f"front . {each}") for each in dotted)
        text += line('api.lane = "go"') + line('new.lane = "go"') + line("[project]") + line('name = "shop"')
    text += draw(COMMENT)
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text, target


def comments(text: str) -> list[str]:
    return re.findall(r"^[ \t]*#[^\r\n]*", text, re.MULTILINE)


def same_around(before: str, after: str) -> tuple[str, str]:
    """Return the differing middle parts of two texts."""
    start = alike(before, after)
    end = alike(before[start:][::-1], after[start:][::-1])
    return before[start : len(before) - end], after[start : len(after) - end]


def alike(first: str, second: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(first), len(second)))


@UNHURRIED
@given(manifest=manifests())
def test_added_mount_preserves_all_other_bytes(
    manifest: tuple[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text, before = manifest
    root = tmp_path_factory.mktemp("project")
    after = edited(root, text, ADD)
    removed, added = same_around(text, after)
    assert removed == "" and '"/x"' in after and len(added) < 60
    assert mounts(root) == before | {"/x": "api"}
    assert ("\r\n" in text) == ("\r\n" in after) and after.count("\r") in {0, after.count("\n")}
    assert edited(root, after, RemoveMount("front", "/x")) == text or "mounts = {" in text
    assert mounts(root) == before


@UNHURRIED
@given(manifest=manifests(), data=st.data())
def test_removed_mount_preserves_all_other_comments(
    manifest: tuple[str, dict[str, str]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text, before = manifest
    root = tmp_path_factory.mktemp("project")
    for pattern in data.draw(st.permutations(list(before))):
        after = edited(root, text, RemoveMount("front", pattern))
        removed, added = same_around(text, after)
        assert added == "" and removed.count("\n") <= 1
        assert comments(after) == comments(text)
        del before[pattern]
        assert mounts(root) == before
        text = after


@UNHURRIED
@given(manifest=manifests(), data=st.data())
def test_changed_mount_changes_own_line_only(
    manifest: tuple[str, dict[str, str]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text, before = manifest
    root = tmp_path_factory.mktemp("project")
    for pattern in data.draw(st.permutations(list(before))):
        after = edited(root, text, ChangeMount("front", pattern, f"/z{pattern}", "new"))
        removed, added = same_around(text, after)
        assert "\n" not in removed + added
        before[f"/z{pattern}"] = "new"
        del before[pattern]
        assert mounts(root) == before
        text = after
