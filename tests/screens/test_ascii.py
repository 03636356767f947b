from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from screens.files import progress_bar
from screens.terminal_app import TextFilter, to_ascii


def test_to_ascii_replaces_signs_and_removes_accents() -> None:
    assert to_ascii("╭─╮│● live …→×") == "+-+|* live ~>x"
    assert to_ascii("Grüße Ærø é") == "Gru?e ?r? e"


def test_done_and_open_parts_of_a_progress_bar_differ_in_ascii() -> None:
    assert to_ascii(progress_bar(1, 4)) == f"{'#' * 6}{'-' * 18}  25%"


def test_to_ascii_preserves_cell_widths() -> None:
    for text in ("日本語", "e\u0301", "שלום", "👩\u200d💻", "ü│日"):
        assert to_ascii(text).isascii()
    for text in ("日本語", "e\u0301", "שלום", "ü│日"):
        assert cell_len(to_ascii(text)) == cell_len(text)


def test_ascii_filter_preserves_styles() -> None:
    bold = Style(bold=True)
    assert TextFilter(to_ascii).apply([Segment("●", bold), Segment(" ok")], Color(0, 0, 0)) == [
        Segment("*", bold),
        Segment(" ok"),
    ]
