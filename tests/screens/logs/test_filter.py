import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.logs.records import LEVELS, RecordSelection
from svc_tui.client import SvcError

names = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
filters = st.builds(
    RecordSelection,
    resource=st.just("") | names,
    level=st.sampled_from(["", *LEVELS]),
    status=st.sampled_from(["", "404", "5xx", ">=400"]),
    request=st.just("") | names,
    since=st.sampled_from(["", "30m", "12h", "7d"]),
    until=st.sampled_from(["", "30s", "10m"]),
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
    .map(str.strip)
    .filter(lambda text: " ".join(text.split()) == text)
    | st.sampled_from(["level:warn", "text:denied", "status=404 or 500", "https://x"]),
)


@given(filters)
def test_filter_words_round_trip(selection: RecordSelection) -> None:
    assert RecordSelection.parse(selection.words()) == selection


@given(filters)
def test_filter_without_all_parts_is_empty(selection: RecordSelection) -> None:
    for key, _ in selection.chips():
        selection = selection.without(key)
    assert selection == RecordSelection() and selection.words() == ""


def test_equals_sign_separates_like_colon() -> None:
    result = RecordSelection.of(["request=7f", "level:warn", "not", "a:filter", "https://x"])
    assert result == RecordSelection(level="warn", request="7f", text="not a:filter https://x")


def test_text_prefix_searches_text() -> None:
    assert RecordSelection.parse("text:denied") == RecordSelection(text="denied")
    result = RecordSelection.parse('one text:"two three" level:warn text:level:info')
    assert result == RecordSelection(level="warn", text="one two three level:info")


def test_params_request_roots_without_resource_or_request() -> None:
    assert RecordSelection(level="warn").params() == {"level": "warn", "roots": "true"}
    assert RecordSelection(resource="api", since="10m").params() == {"resource": "api", "since": 600}
    assert RecordSelection(request="7f").params() == {"request": "7f"}


def test_params_add_age_to_times() -> None:
    selection = RecordSelection(resource="api", since="1h", until="10m")
    assert selection.params(age=5.0) == {"resource": "api", "since": 3605, "until": 605}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("level:loud", "unknown level"),
        ("status:6xx", "invalid status"),
        ("status:", "has no value"),
        ("text:", "has no value"),
        ("since:tomorrow", "invalid age"),
        ("until:0m", "invalid age"),
        ("since:10m until:1h", "since:10m is not before until:1h"),
        ('text "open', "unclosed quote"),
    ],
)
def test_invalid_word_raises_error_with_hint(line: str, message: str) -> None:
    with pytest.raises(SvcError) as exc_info:
        RecordSelection.parse(line)
    assert message in exc_info.value.message and exc_info.value.hint


def test_quotes_group_words() -> None:
    assert RecordSelection.parse(shlex.join(["two words", "resource:api"])).text == "two words"
