"""Rows on a terminal: aligned by what characters take, cut to what fits, commands taken out."""

import pytest
from rich.cells import cell_len

from svc_tui.terminal.table import format_table, one_line


def lines(heads: list[str], rows: list[list[str]], width: int, right: set[int] | None = None) -> list[str]:
    cells = [[(text, "") for text in row] for row in rows]
    made = format_table(heads, cells, width, frozenset(right or ()))
    return ["".join(text for text, _ in line) for line in made]


def test_columns_are_aligned_by_cells_and_numbers_set_to_the_right() -> None:
    assert lines(["n", "name", "x"], [["1", "表表", "a"], ["100", "é", "b"]], 80, {0}) == [
        "  n  name  x",
        "  1  表表  a",
        "100  é     b",
    ]


@pytest.mark.parametrize("width", range(20, 60))
def test_what_is_too_wide_is_cut_and_marked(width: int) -> None:
    found = lines(["a", "long"], [["7", "表" * 100], ["8", "x" * (5 << 20)]], width)
    assert all(cell_len(line) <= width for line in found)
    assert all(line.endswith("…") for line in found[1:])


def test_short_columns_stay_whole_beside_a_long_one() -> None:
    found = lines(["id", "name", "text"], [["12345", "somebody", "y" * 500]], 40)
    assert found[1].startswith("12345  somebody  yyy") and cell_len(found[1]) == 40


def test_where_nothing_fits_each_row_is_lines_of_its_own() -> None:
    names = [f"column{number}" for number in range(10)]
    found = lines(names, [[f"value number {number}" for number in range(10)]] * 2, 40)
    assert found[0] == "── 1 ──" and found[1] == "column0  value number 0" and len(found) == 22


def test_nothing_commands_the_terminal() -> None:
    assert one_line("a\x1b[31m\n\tb\r\n\u202e\x9b") == "a�[31m↵⇥b↵��"
    assert len(one_line("x" * (5 << 20))) < 11_000


def test_there_may_be_no_rows_and_no_room() -> None:
    assert lines(["a", "b"], [], 80) == ["a  b"]
    assert lines(["a"], [["xyz"]], 1)
