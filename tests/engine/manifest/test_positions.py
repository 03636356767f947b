import tomllib
from collections.abc import Iterator
from typing import Any

import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.manifest.problems import KeyPath, Position, find_positions, position_at

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SPREAD = '''# a comment with [resource.x]
[project]
name = "shop" # "quoted" # twice
"quoted.key" . 'and another'."\\u00e9" = 1

[resource . "a"]
  lane = 'js'
mounts = { "/a/*" = "b", c.d = { e = [1, { f = 2 }] } }
egress = [
  "https://ok.example", # = [
  # "nope"
  """a
"] = 3""", [ 7 ],
]
build = """
make [all]
lane = 3 \\"""
"""
text = \'\'\'it's # not "a" comment\'\'\' # this is
last = 1979-05-27 07:32:00
[[step]]
run = 1
[[step]]
run = 2
[step.more]
x = 1
'''


def test_positions_of_keys_match_editor_positions() -> None:
    first = {path: position_at(SPREAD, at) for path, at in find_positions(SPREAD).first.items()}
    expected: dict[KeyPath, Position] = {
        ("project",): Position(2, 2),
        ("project", "name"): Position(3, 1),
        ("project", "quoted.key"): Position(4, 1),
        ("project", "quoted.key", "and another"): Position(4, 16),
        ("project", "quoted.key", "and another", "é"): Position(4, 30),
        ("resource", "a"): Position(6, 13),
        ("resource", "a", "lane"): Position(7, 3),
        ("resource", "a", "mounts", "/a/*"): Position(8, 12),
        ("resource", "a", "mounts", "c", "d"): Position(8, 28),
        ("resource", "a", "mounts", "c", "d", "e", 1, "f"): Position(8, 44),
        ("resource", "a", "egress", 0): Position(10, 3),
        ("resource", "a", "egress", 1): Position(12, 3),
        ("resource", "a", "egress", 2, 0): Position(13, 14),
        ("resource", "a", "build"): Position(15, 1),
        ("resource", "a", "text"): Position(19, 1),
        ("resource", "a", "last"): Position(20, 1),
        ("step", 1, "run"): Position(24, 1),
        ("step", 1, "more", "x"): Position(26, 1),
    }
    assert {path: first.get(path) for path in expected} == expected


def test_nearest_position_of_missing_key_is_parent() -> None:
    positions = find_positions(SPREAD)
    assert positions.nearest(("resource", "a", "output")) == Position(6, 13)
    assert positions.nearest(("nothing",)) == Position(1, 1)


def test_duplicate_keys_are_reported_and_continued_tables_are_not() -> None:
    text = "[a.b]\nx = 1\n[a]\ny.z = 1\ny.w = 2\n[a.c]\n[a]\ny.z = 3\n"
    again = {path: position_at(text, at) for path, at in find_positions(text).again.items()}
    assert again == {("a",): Position(7, 2), ("a", "y", "z"): Position(8, 3)}


@UNHURRIED
@given(st.text(alphabet="[]{}=\"'\\#.,\n ab1", max_size=60))
def test_arbitrary_text_never_raises(text: str) -> None:
    for at in find_positions(text).first.values():
        assert 0 <= at < len(text)


SCALARS = st.one_of(
    st.booleans(), st.integers(-9, 9), st.text(alphabet="a\"'\\#=[]{},\n é", max_size=6), st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a.\"'é b", max_size=3), inner),
    max_leaves=8,
)


@UNHURRIED
@given(st.dictionaries(st.text("a.\"' é", max_size=3), VALUES, max_size=4))
def test_every_parsed_key_has_position(value: dict[str, Any]) -> None:
    text = tomlkit.dumps(value)
    assert set(paths(tomllib.loads(text), ())) == set(find_positions(text).first)


@UNHURRIED
@given(st.dictionaries(st.text("a.\"' é", max_size=3), VALUES, max_size=4))
def test_every_pair_spans_key_and_parsed_value(value: dict[str, Any]) -> None:
    text = tomlkit.dumps(value)
    for path, pair in find_positions(text).pairs.items():
        result: Any = tomllib.loads(text)
        for part in path:
            result = result[part]
        key, written = text[pair.parts[-1] : pair.key_end], text[pair.value : pair.end]
        assert tomllib.loads(f"{key} = {written}") == {path[-1]: result}
        assert len(pair.parts) == len(path) - len(pair.base)


def paths(value: object, base: KeyPath) -> Iterator[KeyPath]:
    """Iterate over the paths of all keys of a document."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    for key, one in inner:
        yield (*base, key)
        yield from paths(one, (*base, key))
