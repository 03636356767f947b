"""Wrapping of styled lines."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from screens.widgets.rows import Line, TextLines, wrap_lines


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_wrap_lines_leaves_short_lines() -> None:
    lines: list[Line] = [[("one", "bad")], [], [("two", "")]]
    assert wrap_lines(lines, 3) == lines


def test_wrap_lines_preserves_tones() -> None:
    assert wrap_lines([[("ab", "dim"), ("cdefg", "bad")]], 3) == [
        [("ab", "dim"), ("c", "bad")],
        [("def", "bad")],
        [("g", "bad")],
    ]


def test_wrap_lines_breaks_at_blanks() -> None:
    assert texts(wrap_lines([[("why not here", "")]], 9)) == ["why not ", "here"]


def test_wrap_lines_does_not_split_wide_characters() -> None:
    assert texts(wrap_lines([[("a漢字b", "")]], 4)) == ["a漢", "字b"]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=30), max_size=4),
    st.integers(2, 20),
)
def test_wrap_lines_preserves_text_within_width(pieces: list[str], width: int) -> None:
    result = texts(wrap_lines([[(piece, "") for piece in pieces]], width))
    assert "".join(result) == "".join(pieces)
    assert all(cell_len(text) <= width for text in result)


def test_text_lines_are_rows() -> None:
    source = TextLines([[(str(number), "")] for number in range(10)])
    assert source.count() == 10
    assert [row.key for row in source.window(8, 5)] == [8, 9]
    assert source.window(3, 1)[0].cells == ((("3", ""),),)
