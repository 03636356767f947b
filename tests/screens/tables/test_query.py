import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens.tables.grid import Condition, RowQuery, describe_sort
from svc_tui.client import SvcError

COLUMNS = ("name", "age", "é a")
texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.text('"nul', max_size=8)
texts |= st.sampled_from(["null", '"null"', '""null""', '"null', "NULL"])
conditions = st.builds(
    Condition,
    st.sampled_from(COLUMNS),
    st.sampled_from(["contains", "starts", "=", "!=", "<=", ">="]),
    texts,
) | st.builds(Condition, st.sampled_from(COLUMNS), st.sampled_from(["=", "!="]), st.none())
searches = st.text(st.characters(categories=["L", "Nd"]), max_size=8)


@given(st.lists(conditions, max_size=4), searches)
def test_filter_words_round_trip(listed: list[Condition], search: str) -> None:
    query = RowQuery(tuple(listed), search)
    assert RowQuery().filtered(query.text(), COLUMNS) == query


def test_words_are_parsed_into_conditions_and_search() -> None:
    query = RowQuery(sorts=(("age", True),)).filtered(
        "name~an age>=30 mail=null 'O K' x", ["name", "age", "mail"]
    )
    assert query.conditions == (
        Condition("name", "contains", "an"),
        Condition("age", ">=", "30"),
        Condition("mail", "=", None),
    )
    assert (query.search, query.sorts) == ("O K x", (("age", True),))
    assert query.chips() == ["name~an", "age>=30", "mail=null", '"O K x"']
    assert query.without(1).chips() == ["name~an", "mail=null", '"O K x"']
    assert query.without(3).search == ""
    null = RowQuery((Condition("name", "=", "null"),))
    assert null.chips() == ['name="null"'] and RowQuery().filtered(null.text(), ["name"]) == null


@pytest.mark.parametrize(("line", "message"), [("nme~x", "unknown column: nme"), ("'open", "unclosed quote")])
def test_invalid_filter_raises_error(line: str, message: str) -> None:
    with pytest.raises(SvcError) as exc_info:
        RowQuery().filtered(line, ["name"])
    assert message in exc_info.value.message


def test_sort_cycles_ascending_descending_none() -> None:
    up = RowQuery().sorted_by("age", append=False)
    down = up.sorted_by("age", append=False)
    both = down.sorted_by("name", append=True)
    assert (describe_sort(up.sorts), describe_sort(down.sorts)) == ("sorted by age ↑", "sorted by age ↓")
    assert describe_sort(both.sorts) == "sorted by age ↓, name ↑"
    assert down.sorted_by("age", append=False).sorts == ()
