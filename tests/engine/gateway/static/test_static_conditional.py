import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.static_files.conditions import byte_range, none_match


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (b"bytes=0-0", (0, 1)),
        (b"bytes=0-", (0, 10)),
        (b"bytes=3-5", (3, 6)),
        (b"bytes=3-500", (3, 10)),
        (b"bytes=-4", (6, 10)),
        (b"bytes=-400", (0, 10)),
        (b"Bytes = 1 - 2", (1, 3)),
        (b"bytes=10-", "unsatisfiable"),
        (b"bytes=99-100", "unsatisfiable"),
        (b"bytes=-0", "unsatisfiable"),
        (b"bytes=5-3", None),
        (b"bytes=-", None),
        (b"bytes=", None),
        (b"bytes=0-1,4-5", None),
        (b"items=0-1", None),
        (b"bytes=a-b", None),
        (b"bytes=0-1x", None),
        (b"bytes=" + b"9" * 400 + b"-", "unsatisfiable"),
        (b"bytes=2-" + b"9" * 400, (2, 10)),
        (b"bytes=-" + b"9" * 400, (0, 10)),
        (b"bytes=" + b"9" * 9000 + b"-", None),
    ],
)
def test_byte_range_parses_or_ignores_header(header: bytes, span: object) -> None:
    assert byte_range(header, 10) == span


def test_range_of_empty_file_is_unsatisfiable() -> None:
    assert byte_range(b"bytes=0-", 0) == "unsatisfiable"
    assert byte_range(b"bytes=-5", 0) == "unsatisfiable"


@given(
    st.integers(0, 100), st.one_of(st.none(), st.integers(0, 200)), st.one_of(st.none(), st.integers(0, 200))
)
def test_byte_range_stays_inside_file(size: int, first: int | None, last: int | None) -> None:
    header = f"bytes={'' if first is None else first}-{'' if last is None else last}".encode()
    span = byte_range(header, size)
    if isinstance(span, tuple):
        assert 0 <= span[0] < span[1] <= size


@pytest.mark.parametrize(
    ("header", "matches"),
    [
        (b'"a"', True),
        (b'W/"a"', True),
        (b'"b", "a"', True),
        (b'"b","x, y" , W/"a"', True),
        (b"*", True),
        (b" * ", True),
        (b'"b"', False),
        (b"a", False),
        (b'"aa"', False),
        (b"", False),
    ],
)
def test_if_none_match_compares_weakly_with_each_listed_etag(header: bytes, matches: bool) -> None:
    assert none_match(header, b'"a"') is matches
