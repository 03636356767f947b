"""Tables on a terminal: aligned by cell width, cut to the line, without control codes."""

import pytest
from rich.cells import cell_len

from svc_tui.terminal.stdout import one_line, table


def lines(heads: list[str], rows: list[list[str]], width: int, right: set[int] | None = None) -> list[str]:
    cells = [[(text, "") for text in row] for row in rows]
    result = table(heads, cells, frozenset(right or ()), width)
    return ["".join(text for text, _ in line) for line in result]


def test_table_aligns_columns_by_cell_width() -> None:
    assert lines(["n", "name", "x"], [["1", "表表", "a"], ["100", "é", "b"]], 80, {0}) == [
        "  n  name  x",
        "  1  表表  a",
        "100  é     b",
    ]


@pytest.mark.parametrize("width", range(20, 60))
def test_table_cuts_wide_cells_with_an_ellipsis(width: int) -> None:
    result = lines(["a", "long"], [["7", "表" * 100], ["8", "x" * (5 << 20)]], width)
    assert all(cell_len(line) <= width for line in result)
    assert all(line.endswith("…") for line in result[1:])


def test_table_narrows_the_widest_column_first() -> None:
    result = lines(["id", "name", "text"], [["12345", "stranger", "y" * 500]], 40)
    assert result[1].startswith("12345  stranger  yyy") and cell_len(result[1]) == 40


def test_table_without_room_prints_rows_as_blocks() -> None:
    names = [f"column{number}" for number in range(10)]
    result = lines(names, [[f"value number {number}" for number in range(10)]] * 2, 40)
    assert result[0] == "── 1 ──" and result[1] == "column0  value number 0" and len(result) == 22


def test_table_strips_control_codes() -> None:
    assert one_line("a\x1b[31m\n\tb\r\n\u202e\x9b") == "a�[31m↵⇥b↵��"
    assert len(one_line("x" * (5 << 20))) < 11_000


def test_table_without_rows_or_room_is_valid() -> None:
    assert lines(["a", "b"], [], 80) == ["a  b"]
    assert lines(["a"], [["xyz"]], 1)
