import json
from base64 import b64encode
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from screens.logs.exchange import body_lines, compare, compare_json
from screens.logs.format import began
from screens.logs.trace import lines, record_details, spans
from screens.widgets.rows import Line
from svc_tui.terminal.units import clock

ID = "01m7znz3zarc2z7c5f16ypj0h8"


def request(
    resource: str, span: str, parent: str, second: float, wall_ms: int, **more: Any
) -> dict[str, Any]:
    return {
        "cursor": 1,
        "kind": "request",
        "time": f"2026-11-21T09:14:{second:06.3f}Z",
        "level": "INFO",
        "resource": resource,
        "request_id": ID,
        "trace_id": "b0e71d321e61a724264ff0e661c70d89",
        "span_id": span,
        "parent": parent,
        "root": not parent,
        "method": "POST",
        "target": "/api/entries",
        "status": 201,
        "code": "",
        "detail": "",
        "wall_ns": wall_ms * 1_000_000,
        "compute_ns": 5_100_000 if parent else 0,
        "peak_memory": 3 << 20 if parent else None,
        "bytes_in": 12,
        "bytes_out": 2048,
    } | more


def log_record(kind: str, level: str, body: str, **attributes: str) -> dict[str, Any]:
    return {
        "cursor": 2,
        "kind": kind,
        "time": "2026-11-21T09:14:03.121000000Z",
        "level": level,
        "resource": "api",
        "request_id": ID,
        "body": body,
        "attributes": attributes,
    }


def text(lines: list[Line]) -> str:
    return "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines)


RECORDS = [
    log_record("structured", "INFO", "entry saved", id="12407", mood="sunny"),
    log_record("stdout", "INFO", "took 2 ms\nand more\n"),
    request("api", "b", "a", 3.119, 6),
    request("web", "a", "", 3.118, 8),
]


def test_spans_form_tree_in_any_order() -> None:
    assert [(span.document["resource"], span.depth) for span in spans(RECORDS)] == [("web", 0), ("api", 1)]
    orphan = [request("api", "b", "gone", 3.119, 6)]
    assert [span.depth for span in spans(orphan)] == [0]


def test_lines_show_span_tree_and_records() -> None:
    assert text(lines(RECORDS, 100)).splitlines() == [
        "POST /api/entries",
        f"{clock(began(RECORDS[-1]))}   trace b0e71d321e61a724264ff0e661c70d89",
        "",
        "web                 201   8.0 ms  ━━━━━━━━━━━━━━━━━━                         ↑12 B ↓2.0 KiB",
        "└ api               201   6.0 ms    ━━━━━━━━━━━━━━     5.1 ms cpu   3.0 MiB  ↑12 B ↓2.0 KiB",
        "",
        "  +3.0 ms  INFO    api           entry saved",
        "                                 id=12407",
        "                                 mood=sunny",
        "  +3.0 ms  STDOUT  api           took 2 ms",
        "                                 and more",
    ]


def call(kind: str, name: str, start: float, wall: float, **more: Any) -> dict[str, Any]:
    """Return a call of the span `b`; times are in milliseconds."""
    times = {"start_ns": int(start * 1e6), "wall_ns": int(wall * 1e6)}
    head = {"span_id": f"{kind}{start}", "parent": "b", "kind": kind, "name": name, "status": 200, "code": ""}
    return head | times | {"attributes": {}} | more


def test_spans_of_one_id_share_no_calls_and_end() -> None:
    same = [
        request("api", "a", "", 1, 1, calls=[call("sql", f"select {i}", i, 1, parent="a")])
        for i in range(500)
    ]
    own = request("api", "b", "", 1, 1), request("api", "b", "b", 1, 1)
    assert len(spans([*same, *own])) == 1002


def test_deep_spans_are_shown_in_bounded_memory() -> None:
    chain = [request("api", f"s{i}", f"s{i - 1}" if i else "", 1, 1) for i in range(5_000)]
    assert [span.depth for span in spans(chain)] == list(range(5_000))
    assert max(len(text([line])) for line in lines(chain, 100)) < 1_000


def test_lines_show_calls_below_their_span() -> None:
    calls = [
        call("sql", "batch of 1", 3, 3, attributes={"wait_ns": 2_000_000, "transaction": "write"}),
        call("sql", "insert\n  into entries", 5, 1, parent="sql3", status=0, attributes={"rows": 2}),
        call("sql", "select id, name, mood from entries order by id desc", 1, 2, attributes={"rows": 1}),
        call("sql", "delete from entries", 2, 0.1, status=409, code="constraint"),
    ]
    documents = [
        request("api", "b", "a", 3.119, 6, calls=calls, calls_omitted=3),
        request("web", "a", "", 3.118, 8),
    ]
    assert text(lines(documents, 78)).splitlines()[3:11] == [
        "web                      201   8.0 ms  ━━━━━━━━━━━━━━━━",
        "└ api                    201   6.0 ms    ━━━━━━━━━━━━     5.1 ms cpu   3.0 MiB",
        "  └ select id, name, mo…       2.0 ms      ━━━━          1 row",
        "  └ delete from entries  409   0.1 ms        ━           constraint",
        "  └ batch of 1                 3.0 ms          ━━━━━━    waited 2.0 ms",
        "    └ insert into entri…       1.0 ms              ━━    2 rows",
        "… 3 further calls are not recorded",
        "",
    ]
    assert "\nselect id, name, mood from entries order by id desc\n" in text(lines(documents, 78))


def test_lines_show_spans_of_code_with_calls_below() -> None:
    failure = {"rows": "many", "otel.status_description": "no\x1b[31m stock"}
    calls = [
        call("span", "reserve", 1, 4, status=0, code="error", attributes=failure),
        call("fetch", "GET https://a.test", 2, 2, parent="span1", attributes={"dns_ns": 1_200_000}),
    ]
    shown = text(lines([request("api", "b", "", 3.119, 6, calls=calls)], 78)).splitlines()[4:6]
    assert (
        shown[0].startswith("└ reserve ") and shown[0].rstrip().endswith(" stock") and "\x1b" not in shown[0]
    )
    assert shown[1].startswith("  └ GET https://a.test ") and shown[1].rstrip().endswith("dns 1.2 ms")


def test_equal_calls_in_a_row_are_one_line() -> None:
    calls = [
        call("sql", "select 1", at, 0.5, attributes={"rows": 2, "transaction": "read"}) for at in range(5)
    ]
    calls += [call("sql", "select 2", 6, 1), call("sql", "select 1", 7, 1, status=504, code="time-limit")]
    documents = [request("api", "b", "", 3.119, 8, calls=calls)]
    five, two, failed = [" ".join(line.split()) for line in text(lines(documents, 100)).splitlines()[4:7]]
    assert five.startswith("└ 5 × select 1 4.5 ms ━") and five.endswith("━ 10 rows")
    assert two.startswith("└ select 2 1.0 ms") and failed.endswith("━ time-limit")


def test_lines_show_failure_reason() -> None:
    failed = [
        request("web", "a", "", 3.0, 30, status=504, code="run-limit", detail="run limit of 30 s reached")
    ]
    assert "run-limit  run limit of 30 s reached" in text(lines(failed, 100))


def test_lines_show_records_without_request() -> None:
    assert "entry saved" in text(lines(RECORDS[:1], 80))


def test_request_details_show_usage_and_failure() -> None:
    inner = request("api", "b", "a", 3.119, 6, code="run-limit", detail="30 s reached")
    result = text(record_details(request("web", "a", "", 3.118, 8, status=504, spans=[inner])))
    assert "web → api" in result and "504  POST /api/entries" in result
    assert "8.0 ms   5.1 ms cpu   3.0 MiB   ↑12 B ↓2.0 KiB" in result
    assert "run-limit  30 s reached" in result and "2026-11-21 " in result


def test_record_details_format_json_and_remove_control_characters() -> None:
    result = text(record_details(log_record("stdout", "INFO", '{"a": [1]}')))
    assert '{\n  "a": [\n    1\n  ]\n}' in result
    assert "\x1b" not in text(record_details(log_record("stdout", "INFO", "\x1b[2J\u202eevil")))


def recorded(body: str, status: int = 200, **more: Any) -> dict[str, Any]:
    response = {
        "status": status,
        "headers": [("content-type", "text/plain")],
        "body": body,
        "size": 3,
        "truncated": False,
        "complete": True,
    }
    return {
        "request_id": ID,
        "response": response,
        "code": "",
        "wall_ns": 2_000_000,
        "compute_ns": 1_000_000,
        "peak_memory": 1 << 20,
        "records": [log_record("stdout", "INFO", "hello")],
    } | more


def test_record_attributes_align_in_cells() -> None:
    shown = text(record_details(log_record("log", "info", "", 名前="a", id="b")))
    assert "名前  a\nid    b" in shown


def test_compare_identical_replay_has_no_marks() -> None:
    result = text(compare(recorded("aGkh"), recorded("aGkh"), 80))
    assert "≠" not in result and result.count("hi!") == 2 and result.count("hello") == 2


def test_compare_marks_differences() -> None:
    result = text(compare(recorded("aGkh"), recorded("aG8h", 500, omitted_headers=["cookie"]), 80))
    assert [line.split() for line in result.splitlines() if "≠" in line] == [
        ["200", "≠", "500"],
        ["hi!", "≠", "ho!"],
    ]
    assert "no longer in the memory of svc dev, so not sent: cookie" in result


def test_compare_of_json_follows_its_structure() -> None:
    before = {"a": 1, "list": [{"id": 1}, {"id": 2}], "gone": [True], "same": {"x": None}}
    after = {"same": {"x": None}, "list": [{"id": 0}, {"id": 1}, {"id": 2}], "a": 1.5, "new": "text"}
    pairs = list(compare_json(before, after))
    assert [(pair.before.strip(), pair.after.strip()) for pair in pairs if pair.differs] == [
        ('"a": 1,', '"a": 1.5,'),
        ("", "{"),
        ("", '"id": 0'),
        ("", "},"),
        ('"gone": [', ""),
        ("true", ""),
        ("],", ""),
        ("", '"new": "text"'),
    ]
    assert json.loads("".join(pair.before for pair in pairs)) == before
    assert json.loads("".join(pair.after for pair in pairs)) == after
    encoded = [
        b64encode(json.dumps(value).encode()).decode() for value in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    ]
    assert "≠" not in text(compare(recorded(encoded[0]), recorded(encoded[1]), 80))


def test_numbers_of_json_bodies_are_shown_as_they_were_sent() -> None:
    numbers = ["1.10", "-0", "12345678901234567890.123", "1E400", "1e5", "0.1000", "NaN"]
    body = f"[{','.join(numbers)}]".encode()
    shown = body_lines({"body": b64encode(body), "size": len(body), "truncated": False})
    assert [line.strip(" ,") for line in shown[1:-1]] == numbers
    before, after = (b64encode(body.replace(b"0.1000", cell)).decode() for cell in (b"0.1000", b"0.10000"))
    marked = [
        line.split()
        for line in text(compare(recorded(before), recorded(after), 80)).splitlines()
        if "≠" in line
    ]
    assert marked == [["0.1000,", "≠", "0.10000,"]]


def test_compare_ignores_the_id_of_the_request_in_bodies() -> None:
    first, second = "01m8e27p0trs6hwz5cne6bs286", "01m8e28yyz34099as6n33z2sb5"
    for body in ('{"id": "%s"}', "failed: %s"):
        before, after, other = (
            recorded(b64encode((body % request_id).encode()).decode())
            for request_id in (first, second, first[::-1])
        )
        assert "≠" not in text(compare(before | {"request_id": first}, after | {"request_id": second}, 80))
        assert "≠" in text(compare(before | {"request_id": first}, other | {"request_id": second}, 80))


def test_compare_wraps_long_lines_in_their_column() -> None:
    body, other = ("YWJj" * 20, "YWJj" * 19 + "eHl6")
    result = text(compare(recorded(body), recorded(other), 80)).splitlines()
    first = next(number for number, line in enumerate(result) if "≠" in line)
    assert result[first].split() == ["abc" * 12 + "ab", "≠", "abc" * 12 + "ab"]
    assert result[first + 1].split() == ["c" + "abc" * 7, "c" + "abc" * 6 + "xyz"]
    assert result[first + 1].index("xyz") > 38


def test_compare_without_response_uses_records() -> None:
    result = text(compare(recorded("", response=None, code="client-gone"), recorded("aGkh"), 80))
    assert "no response client-gone" in result and "header fields" not in result


def test_body_lines_show_the_fields_of_a_form() -> None:
    head = b'--X\r\ncontent-disposition: form-data; name="'
    body = head + b'note"\r\n\r\none\r\ntw\xc3\xb6\r\n'
    body += (
        head + b'photo"; filename="a\xc3\xa9.png"\r\nContent-Type: image/png\r\n\r\n\xff\0\r\n\r\n--X--\r\n'
    )
    message = {
        "headers": [["content-type", "Multipart/Form-Data; boundary=X"]],
        "size": 1,
        "truncated": False,
    }
    shown = body_lines(message | {"body": b64encode(body)})
    assert shown == ["note: one", "twö", "photo: aé.png, image/png, 4 B"]


@given(st.binary(max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_body_lines_show_any_form(data: bytes, kind: str, name: str) -> None:
    head = f'--X\r\ncontent-disposition: form-data; name="{name}"; filename*={kind}\r\n'.encode()
    for part in (head + data, head + b"\r\n" + data, b"--X\r\n" + data):
        for content_type in ("multipart/form-data; boundary=X", f"multipart/{kind}; boundary={name}"):
            message = {"headers": [["content-type", content_type]], "size": 1, "truncated": False}
            assert isinstance(body_lines(message | {"body": b64encode(part)}), list)


def test_body_lines_show_text_json_or_hex_and_truncation() -> None:
    body = {"body": "/0H+", "size": 9, "truncated": True}
    hexadecimal = "000000  ff 41 fe" + " " * 41 + ".A."
    assert body_lines(body) == [hexadecimal, "… truncated: 3 B of 9 B were recorded"]
    assert body_lines({"body": "eyJhIjoxfQ==", "size": 7, "truncated": False}) == ["{", '  "a": 1', "}"]
