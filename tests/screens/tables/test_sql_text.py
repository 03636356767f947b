import pytest

from screens.tables.sql_text import MAX_COLORED, completion, spans, spans_by_line


def test_spans_color_keywords_functions_texts_numbers_and_comments() -> None:
    text = "SELECT count(*), count FROM t -- all\nwhere a = 'it''s' and b > 1.5 and c = ?1"
    assert [(text[start:end], tone) for start, end, tone in spans(text)] == [
        ("SELECT", "violet"),
        ("count", "yellow"),
        ("FROM", "violet"),
        ("-- all", "dim"),
        ("where", "violet"),
        ("'it''s'", "good"),
        ("and", "violet"),
        ("1.5", "teal"),
        ("and", "violet"),
        ("?1", "orange"),
    ]


def test_spans_by_line_split_texts_of_several_lines() -> None:
    text = "select 1\n, 'a\n\nb' /* c\n*/ from t"
    parts = {
        line: [text.split("\n")[line][start:end] for start, end, _ in parts]
        for line, parts in spans_by_line(text).items()
    }
    assert parts == {0: ["select", "1"], 1: ["'a"], 2: [""], 3: ["b'", "/* c"], 4: ["*/", "from"]}


@pytest.mark.parametrize(
    "text", ["'open", "/* open", '"open', "[open", "`open", "é'", "x" * (MAX_COLORED + 1)]
)
def test_spans_of_unfinished_text_end_with_it(text: str) -> None:
    assert all(0 <= start < end <= len(text) for start, end, _ in spans(text))


@pytest.mark.parametrize(
    ("before", "rest"),
    [
        ("select na", "me"),
        ("sel", "ect"),
        ("SEL", "ECT"),
        ("select cou", "nt("),
        ("select name", ""),
        ("select 'na", ""),
        ("select 1 -- na", ""),
        ("select ", ""),
        ("", ""),
        ("select xyz", ""),
        ("from gä", 'ste liste"'),
        ('from "gä', 'ste liste"'),
        ('from "na', 'me"'),
        ("from od", 'd""name"'),
        ("from ord", 'er"'),
        ("from order", ""),
    ],
)
def test_completion_returns_the_rest_of_the_word(before: str, rest: str) -> None:
    assert completion(before, {"name", "people", "gäste liste", 'odd"name', "order"}) == rest
