import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.logs.filter import LEVELS, Filter
from svc_tui.client import SvcError

names = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
filters = st.builds(
    Filter,
    resource=st.just("") | names,
    level=st.sampled_from(["", *LEVELS]),
    status=st.sampled_from(["", "404", "5xx", ">=400"]),
    request=st.just("") | names,
    since=st.sampled_from(["", "30m", "12h", "7d"]),
    until=st.sampled_from(["", "30s", "10m"]),
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
    .map(str.strip)
    .filter(lambda text: ":" not in text and "=" not in text and " ".join(text.split()) == text),
)


@given(filters)
def test_a_filter_is_what_its_words_say(wanted: Filter) -> None:
    assert Filter.parse(wanted.words()) == wanted


@given(filters)
def test_taking_every_chip_away_leaves_nothing(wanted: Filter) -> None:
    for key, _ in wanted.chips():
        wanted = wanted.without(key)
    assert wanted == Filter() and wanted.words() == ""


def test_an_equals_sign_does_as_a_colon_and_other_words_are_text() -> None:
    found = Filter.of(["request=7f", "level:warn", "not", "a:filter", "https://x"])
    assert found == Filter(level="warn", request="7f", text="not a:filter https://x")


def test_mounted_spans_are_left_out_where_their_front_is_shown() -> None:
    assert Filter(level="warn").params() == {"level": "warn", "roots": "true"}
    assert Filter(resource="api", since="10m").params() == {"resource": "api", "since": 600}
    assert Filter(request="7f").params() == {"request": "7f"}


def test_times_stay_those_that_they_were_when_the_filter_was_asked_for() -> None:
    wanted = Filter(resource="api", since="1h", until="10m")
    assert wanted.params(age=5.0) == {"resource": "api", "since": 3605, "until": 605}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("level:loud", "no level"),
        ("status:6xx", "no status"),
        ("status:", "followed by nothing"),
        ("since:tomorrow", "no time"),
        ("until:0m", "no time"),
        ("since:10m until:1h", "since:10m and until:1h"),
        ('text "open', "quote is open"),
    ],
)
def test_a_word_that_means_nothing_is_told_with_what_does(line: str, said: str) -> None:
    with pytest.raises(SvcError) as told:
        Filter.parse(line)
    assert said in told.value.message and told.value.hint


def test_quotes_keep_blanks_together() -> None:
    assert Filter.parse(shlex.join(["two words", "resource:api"])).text == "two words"
