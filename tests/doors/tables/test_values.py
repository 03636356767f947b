import base64
import json
import math
import re
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doors.tables.tables_door import Tables

KINDS = """
create table kinds (
  id integer primary key,
  i integer,
  r real,
  t text,
  flag integer check (flag in (0, 1)),
  done boolean,
  at timestamp,
  doc json,
  raw blob
)
"""


@pytest.fixture
def kinds(tables: Tables) -> Tables:
    tables.schema(KINDS)
    return tables


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        2**53 + 1,
        2**63 - 1,
        -(2**63),
        1.5,
        -0.0,
        1e300,
        5e-324,
        "",
        "a\0b",
        "€😀",
        "\u2028",
        "\ufeff",
        None,
    ],
)
def test_edge_values_round_trip(tables: Tables, value: Any) -> None:
    result = tables.query("select $1 as a", value).rows[0]["a"]
    assert (type(result), result) == (type(value), value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.one_of(
        st.none(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"])),
    )
)
def test_random_values_round_trip(tables: Tables, value: Any) -> None:
    text = json.dumps(value)
    if isinstance(value, float):
        text = text.replace("Infinity", "9e999")
    body = f'{{"sql": "select $1 as a, typeof($1) as b", "params": [{text}]}}'.encode()
    row = tables.send("/v1/query", body).rows[0]
    if isinstance(value, float):
        assert struct.pack("d", row["a"]) == struct.pack("d", value)
        assert row["b"] == "real"
    else:
        assert row["a"] == value


def test_infinity_round_trips_as_9e999(kinds: Tables) -> None:
    body = b'{"sql": "insert into kinds (r) values ($1), (-$1) returning r", "params": [9e999]}'
    answer = kinds.send("/v1/exec", body)
    assert '"rows":[{"r":9e999},{"r":-9e999}]' in answer.text
    assert answer.document["rows"] == [{"r": math.inf}, {"r": -math.inf}]


def test_blobs_are_base64_encoded(kinds: Tables) -> None:
    raw = bytes(range(256))
    data = {"base64": base64.b64encode(raw).decode()}
    row = kinds.exec("insert into kinds (raw) values ($1) returning raw, length(raw) as n", data).rows[0]
    assert row == {"raw": data["base64"], "n": 256}
    assert kinds.query("select x'' as a, x'00ff' as b").rows == [{"a": "", "b": "AP8="}]


def test_response_lists_blob_columns(kinds: Tables) -> None:
    kinds.exec("insert into kinds (raw) values ($1), ('text')", {"base64": "AP8Q"})
    answer = kinds.query('select raw, raw as "a""b", substr(raw, 1) as part, t from kinds')
    assert answer.document["blobs"] == ["raw", 'a"b']
    assert [base64.b64decode(row["raw"]) for row in answer.rows] == [b"\x00\xff\x10", b"text"]
    returned = kinds.exec("insert into kinds (raw) values (null) returning raw").document
    assert (returned["rows"], returned["blobs"]) == ([{"raw": None}], ["raw"])
    assert "blobs" not in kinds.query("select t from kinds").document


def test_values_have_logical_type_of_column(kinds: Tables) -> None:
    kinds.exec(
        "insert into kinds (done, flag, at, doc) values ($1, $2, $3, $4), (null, null, null, null)",
        True,
        False,
        "2026-01-31T12:00:00.000Z",
        {"a": [1, None, 12345678901234567890], "b": "é"},
    )
    assert kinds.query("select done, flag, at, doc from kinds order by id").rows == [
        {
            "done": True,
            "flag": False,
            "at": "2026-01-31T12:00:00.000Z",
            "doc": {"a": [1, None, 12345678901234567890], "b": "é"},
        },
        {"done": None, "flag": None, "at": None, "doc": None},
    ]


def test_logical_type_survives_alias_join_and_view(kinds: Tables) -> None:
    kinds.schema("create view finished as select id, done as yes from kinds where done")
    kinds.exec("insert into kinds (done) values (true)")
    rows = kinds.query("select a.done as x, f.yes as y from kinds a join finished f on f.id = a.id").rows
    assert rows == [{"x": True, "y": True}]


def test_values_of_other_type_are_returned_unconverted(kinds: Tables) -> None:
    kinds.exec("insert into kinds (done, at, doc) values (7, 'soon', '{'), ('no', 12, '[NaN]')")
    assert kinds.query("select done, at, doc from kinds order by id").rows == [
        {"done": 7, "at": "soon", "doc": "{"},
        {"done": "no", "at": 12, "doc": "[NaN]"},
    ]


@pytest.mark.parametrize(
    ("stored", "returned"),
    [
        ("2026-01-31 12:00:00", "2026-01-31T12:00:00.000Z"),
        ("2026-01-31 12:00:00.5", "2026-01-31T12:00:00.500Z"),
        ("2026-01-31 12:00:00.123456", "2026-01-31T12:00:00.123456Z"),
        ("2026-01-31T12:00:00.123Z", "2026-01-31T12:00:00.123Z"),
        ("2026-01-31", "2026-01-31"),
    ],
)
def test_timestamps_are_returned_in_iso_8601(kinds: Tables, stored: str, returned: str) -> None:
    kinds.exec("insert into kinds (at) values ($1)", stored)
    assert kinds.query("select at from kinds").rows == [{"at": returned}]


def test_now_is_constant_within_request(kinds: Tables) -> None:
    row = kinds.query("select now() as a, now() as b, strftime('%Y-%m-%dT%H:%M', 'now') as c").rows[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["a"])
    assert row["a"] == row["b"]
    kinds.exec("insert into kinds (at) values (now())")
    assert kinds.query("select count(*) as n from kinds where at <= now()").rows == [{"n": 1}]


def test_non_utf_8_text_is_refused_and_readable_as_blob(kinds: Tables) -> None:
    kinds.exec("insert into kinds (t) values (cast(x'ff' as text))")
    answer = kinds.query("select t from kinds")
    assert (answer.status, answer.code) == (400, "sql-error")
    assert kinds.query("select cast(t as blob) as t from kinds").rows == [{"t": "/w=="}]


def test_deeply_nested_json_is_returned_as_text(kinds: Tables) -> None:
    deep = "[" * 1000 + "]" * 1000
    kinds.exec("insert into kinds (doc) values ($1), ('[1]')", deep)
    assert kinds.query("select doc from kinds").rows == [{"doc": deep}, {"doc": [1]}]


@pytest.mark.parametrize("depth", range(960, 1000))
def test_deep_document_is_refused_or_stored_and_read(kinds: Tables, depth: int) -> None:
    body = '{"sql": "insert into kinds (doc) values ($1)", "params": [%s]}' % ("[" * depth + "]" * depth)
    answer = kinds.send("/v1/exec", body.encode())
    assert answer.status == 200 or answer.code in ("bad-request", "bad-parameters")
    kinds.exec("insert into kinds (doc) values ($1)", "[" * depth + "]" * depth)
    assert kinds.query("select doc from kinds").status == 200


@pytest.mark.parametrize(
    "document",
    [
        r'{"c":"\ud83d"}',
        r'{"\udc00": ["\ude00\ud83d"]}',
        r'"a\u0000b"',
        "[1e400,-1e400]",
        "1" * 4000,
        "1" * 5000,
    ],
)
def test_every_valid_document_is_stored_and_returned(kinds: Tables, document: str) -> None:
    kinds.schema("create table docs (doc text check (json_valid(doc))) strict")
    kinds.exec("insert into docs (doc) values ($1)", document)
    assert kinds.query("select doc from docs").text == f'{{"rows":[{{"doc":{document}}}]}}'


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,6})?", fullmatch=True)
DOCUMENTS = st.recursive(
    NUMBERS | st.sampled_from(["null", "true", '"1.10"', r'"\ud83d"', '""']),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda values: f"[{', '.join(values)}]")
        | st.lists(inner, max_size=4).map(
            lambda values: f"{{{', '.join(f'{json.dumps(str(at))}: {v}' for at, v in enumerate(values))}\n}}"
        )
    ),
    max_leaves=8,
)


def numbers(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(DOCUMENTS.map(lambda document: f"[{document}]"))
def test_documents_have_the_stored_text_and_every_number(kinds: Tables, document: str) -> None:
    kinds.exec("insert or replace into kinds (id, doc) values (1, $1)", document)
    assert kinds.query("select doc from kinds").text == f'{{"rows":[{{"doc":{document}}}]}}'
    insert = "insert or replace into kinds (id, doc) values (1, $1) returning doc"
    answer = kinds.send("/v1/exec", f'{{"sql": "{insert}", "params": [{document}]}}'.encode())
    assert numbers(answer.text)["rows"] == [{"doc": numbers(document)}]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 400 + ".0", "9E999"])
def test_number_beyond_a_real_is_refused_and_stored_as_text(kinds: Tables, number: str) -> None:
    body = '{"sql": "insert into kinds (%s) values ($1) returning %s", "params": [%s]}'
    answer = kinds.send("/v1/exec", (body % ("r", "r", number)).encode())
    assert (answer.status, answer.code) == (400, "bad-parameters")
    assert answer.document["detail"] == f"$1 is beyond the range of a real: {number}"
    kinds.schema("create table docs (doc text check (json_valid(doc))) strict")
    body = body.replace("kinds", "docs")
    answer = kinds.send("/v1/exec", (body % ("doc", "doc", f'"{number}"')).encode())
    assert f'"doc":{number}}}' in answer.text


def test_parameters_that_utf_8_and_json_lack_are_escaped(kinds: Tables) -> None:
    body = b'{"sql": "insert into kinds (doc) values ($1)", "params": [{"c": ["\\ud83d", 1e400]}]}'
    assert kinds.send("/v1/exec", body).status == 200
    assert kinds.query("select cast(doc as text) as t, json_valid(doc) as ok from kinds").rows == [
        {"t": '{"c":["\\ud83d",1e400]}', "ok": 1}
    ]


def test_blob_in_text_column_is_refused_with_hint(tables: Tables) -> None:
    answer = tables.exec("insert into users (name) values ($1)", {"base64": "AQI="})
    assert (answer.status, answer.document["constraint"]) == (409, "type")
    assert "base64" in answer.document["hint"]


@pytest.mark.parametrize(("column", "value"), [("ok", 2), ("at", "yesterday"), ("doc", "{")])
def test_value_of_wrong_logical_type_is_refused_with_example(
    tables: Tables, column: str, value: object
) -> None:
    moment = "strftime('%Y-%m-%dT%H:%M:%fZ', \"at\")"
    tables.schema(
        "create table typed ("
        'ok integer check ("ok" in (0, 1)), '
        f'at text check ("at" is {moment}), '
        'doc text check (json_valid("doc")), '
        "n integer check (n > 0)) strict"
    )
    answer = tables.exec(f"insert into typed ({column}) values ($1)", value)
    assert (answer.status, answer.document["constraint"]) == (409, "check")
    assert "2026-01-02T03:04:05.678Z" in answer.document["hint"]
    assert "hint" not in tables.exec("insert into typed (n) values (0)").document
