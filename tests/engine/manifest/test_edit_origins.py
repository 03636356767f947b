from pathlib import Path

import pytest

from engine.manifest.edit import AddOrigin, Change, EditRefused, RemoveOrigin, inverse, plan, write
from engine.manifest.load import load
from tests.engine.manifest.test_edit import API, FRONT, HEAD, edited

ORIGIN = "https://b.test"


# What is in [resource.front] before and after an origin is added.
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'egress = ["https://b.test"]\n'),
        ("public = true # p\n", 'public = true # p\negress = ["https://b.test"]\n'),
        ("egress = [] # none\n", 'egress = ["https://b.test"] # none\n'),
        ('egress = [ "https://a.test" ] # c\n', 'egress = [ "https://a.test", "https://b.test" ] # c\n'),
        (
            'egress = [ # allowed\n  "https://a.test", # a\n  # more\n  "https://c.test"\n]\n',
            'egress = [ # allowed\n  "https://b.test",\n  "https://a.test", # a\n  # more\n  "https://c.test"\n]\n',
        ),
        ('egress = [ "https://a.test", # a\n]\n', 'egress = [ "https://a.test", "https://b.test", # a\n]\n'),
        ('mounts."/a" = "api"\n', 'mounts."/a" = "api"\negress = ["https://b.test"]\n'),
    ],
)
def test_added_origin_joins_egress_and_is_removed_again(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "svc.toml").write_text(HEAD + FRONT + before + API)
    changes = [AddOrigin("front", ORIGIN)]
    undo = inverse(load(tmp_path), changes)
    assert edited(tmp_path, HEAD + FRONT + before + API, *changes) == HEAD + FRONT + after + API
    assert ORIGIN in load(tmp_path).resources["front"].egress
    write(plan(tmp_path, undo))
    undone = before.replace("egress = [] # none\n", "")
    assert (tmp_path / "svc.toml").read_text() == HEAD + FRONT + undone + API


def test_origins_of_inline_tables_and_several_removals(tmp_path: Path) -> None:
    text = HEAD + '[resource]\nfront = { lane = "js", public = true }\n'
    added = edited(tmp_path, text, AddOrigin("front", ORIGIN), AddOrigin("front", "http://c.test:81"))
    entries = 'egress = ["https://b.test", "http://c.test:81"]'
    assert added == text.replace("true }", f"true, {entries} }}")
    assert edited(tmp_path, added, RemoveOrigin("front", ORIGIN)).count("b.test") == 0
    assert (
        edited(tmp_path, added, RemoveOrigin("front", ORIGIN), RemoveOrigin("front", "http://c.test:81"))
        == text
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (AddOrigin("front", "b.test"), "is not an origin"),
        (AddOrigin("front", 'https://b"]'), "is not an origin"),
        (AddOrigin("frnt", ORIGIN), "unknown resource"),
        (RemoveOrigin("front", ORIGIN), "has no egress"),
    ],
)
def test_impossible_change_of_origins_is_refused(tmp_path: Path, change: Change, message: str) -> None:
    (tmp_path / "svc.toml").write_text(HEAD + FRONT + API)
    with pytest.raises(EditRefused, match=message):
        plan(tmp_path, [change])
