"""Requests that are malformed, too large or sent to the wrong path; and bad records among good ones."""

import asyncio
import gzip
import json
import tracemalloc
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from doors.telemetry.http import PLAIN_BYTES
from doors.telemetry.otlp_protobuf import RECORD_BYTES
from doors.telemetry.record import ATTRIBUTES, BODY_BYTES, PARTS, VALUE_BYTES
from engine.door import Caller
from tests.doors.telemetry.conftest import OpenTelemetry, attributes, logs, sized

PROTOBUF = "application/x-protobuf"
GOOD = {"body": {"stringValue": "good"}}


def protobuf(*records: LogRecord) -> bytes:
    scope = ScopeLogs(log_records=records)
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[scope])]).SerializeToString()


@pytest.mark.parametrize(
    "bad",
    [
        7,
        "text",
        [],
        {"timeUnixNano": "yesterday"},
        {"timeUnixNano": 2**64},
        {"timeUnixNano": 1.5},
        {"timeUnixNano": "9" * 5000},
        {"severityNumber": True},
        {"severityNumber": 1e400},
        {"severityText": 5},
        {"body": "text"},
        {"body": {"stringValue": 5}},
        {"body": {"boolValue": "yes"}},
        {"body": {"intValue": {}}},
        {"body": {"doubleValue": "many"}},
        {"body": {"bytesValue": "é"}},
        {"body": {"bytesValue": "A"}},
        {"body": {"arrayValue": []}},
        {"body": {"arrayValue": {"values": {}}}},
        {"attributes": {"a": "b"}},
        {"attributes": ["a"]},
        {"attributes": [{"key": 1}]},
        {"traceId": 5},
    ],
)
def test_a_bad_record_is_counted_and_spoils_no_other(telemetry: OpenTelemetry, bad: Any) -> None:
    answer = telemetry.document(logs(GOOD, bad, GOOD))
    told = json.loads(answer.body)["partialSuccess"]
    assert (answer.status, told["rejectedLogRecords"]) == (200, "1")
    assert told["errorMessage"].startswith("record 2: ")
    assert [entry.body for entry in telemetry.logged] == ["good", "good"]


def test_a_bad_record_of_protobuf_is_counted_too(telemetry: OpenTelemetry) -> None:
    good = LogRecord(body=AnyValue(string_value="good"))
    data = protobuf(good, LogRecord(severity_text="BROKEN"), good).replace(
        b"BROKEN", b"\xff\xfe\xff\xfe\xff\xfe"
    )
    answer = telemetry.post(data, PROTOBUF)
    told = ExportLogsServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, told.rejected_log_records) == (200, 1)
    assert told.error_message == "record 2: it is malformed"
    assert [entry.body for entry in telemetry.logged] == ["good", "good"]


def test_a_record_of_protobuf_that_is_too_large_is_counted(telemetry: OpenTelemetry) -> None:
    large = LogRecord(body=AnyValue(string_value="x" * RECORD_BYTES))
    answer = telemetry.post(protobuf(large, LogRecord(body=AnyValue(string_value="good"))), PROTOBUF)
    told = ExportLogsServiceResponse.FromString(answer.body).partial_success
    assert told.rejected_log_records == 1 and "262" in told.error_message
    assert [entry.body for entry in telemetry.logged] == ["good"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff",
        b'{"resourceLogs":{}}',
        b'{"resourceLogs":[1]}',
        b'{"resourceLogs":[{"scopeLogs":{}}]}',
        b'{"resourceLogs":[{"resource":[]}]}',
        b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]},{"logRecords":{}}]}]}',
        b"[" * 100_000,
        b'{"resourceLogs":' * 100_000,
    ],
)
def test_a_malformed_document_is_refused_whole(telemetry: OpenTelemetry, body: bytes) -> None:
    answer = telemetry.post(body)
    status = json.loads(answer.body)
    assert (answer.status, status["code"]) == (400, 3)
    assert status["message"].startswith("the body is not an ExportLogsServiceRequest: ")
    assert telemetry.logged == []


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0b\x00",
        b"\x02\x00",
        b"\xff" * 20,
        b"\x09abc",
        b"{}",
        protobuf(LogRecord()) + b"\x0a\x04\x12\x02\x12\x05",
        b"\x0a\x04\x0a\x02\x0a\x7f",
    ],
)
def test_a_malformed_protobuf_document_is_refused_whole(telemetry: OpenTelemetry, body: bytes) -> None:
    answer = telemetry.post(body, PROTOBUF)
    status = Status.FromString(answer.body)
    assert (answer.status, status.code, dict(answer.headers)["content-type"]) == (400, 3, PROTOBUF.encode())
    assert status.message.startswith("the body is not an ExportLogsServiceRequest: ")
    assert telemetry.logged == []


def test_values_that_are_nested_very_deeply_are_a_bad_record(telemetry: OpenTelemetry) -> None:
    value: Any = {"stringValue": "deep"}
    deep = AnyValue(string_value="deep").SerializeToString()
    for depth in range(200):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
        deep = b"\x2a" + sized(b"\x0a" + sized(deep))
        if depth == 40:
            assert telemetry.record({"body": value}).body.endswith('{"k":"deep"}' + "}" * 40)
    assert json.loads(telemetry.document(logs({"body": value})).body)["partialSuccess"]
    answer = telemetry.post(
        b"\x0a" + sized(b"\x12" + sized(b"\x12" + sized(b"\x2a" + sized(deep)))), PROTOBUF
    )
    assert ExportLogsServiceResponse.FromString(answer.body).partial_success.rejected_log_records == 1


@pytest.mark.parametrize(
    ("options", "status", "code"),
    [
        ({"kind": "text/plain"}, 415, 3),
        ({"packed": "br"}, 415, 3),
        ({"packed": "gzip"}, 400, 3),
        ({"path": "/v1/profiles"}, 404, 5),
        ({"path": "/v1/logs/"}, 404, 5),
        ({"method": "GET"}, 405, 12),
    ],
)
def test_what_is_not_otlp_over_http_is_refused_with_a_reason(
    telemetry: OpenTelemetry, options: dict[str, str], status: int, code: int
) -> None:
    answer = telemetry.post(b"{}", **options)
    assert (answer.status, json.loads(answer.body)["code"]) == (status, code)
    assert (("allow", b"POST") in answer.headers) == (status == 405)


def test_gzip_that_breaks_off_is_refused(telemetry: OpenTelemetry) -> None:
    data = gzip.compress(json.dumps(logs(GOOD)).encode())
    for broken in (data[:-9], data[:12], b""):
        assert telemetry.post(broken, packed="gzip").status == 400


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(telemetry: OpenTelemetry) -> None:
    bomb = gzip.compress(bytes(256 << 20), compresslevel=1)
    tracemalloc.start()
    answer = telemetry.post(bomb, packed="gzip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status == 413
    assert peak < 4 * PLAIN_BYTES


@pytest.mark.parametrize("kind", ["application/json", PROTOBUF])
def test_a_request_of_too_many_records_is_refused_soon(telemetry: OpenTelemetry, kind: str) -> None:
    if kind == PROTOBUF:
        data = protobuf(*[LogRecord()] * (PARTS + 1))
    else:
        data = json.dumps(logs(*[{}] * (PARTS + 1))).encode()
    answer = telemetry.post(data, kind)
    assert answer.status == 413
    assert telemetry.logged == []


def test_a_batch_of_exporters_usual_size_is_taken_whole(telemetry: OpenTelemetry) -> None:
    assert json.loads(telemetry.document(logs(*[GOOD] * 512)).body) == {}
    assert len(telemetry.logged) == 512


def test_a_long_body_and_long_values_are_cut_and_say_so(telemetry: OpenTelemetry) -> None:
    entry = telemetry.record(
        {"body": {"stringValue": "ü" * BODY_BYTES}, "attributes": attributes(long="x" * (VALUE_BYTES + 1))}
    )
    assert entry.body.endswith(f"ü… ({2 * BODY_BYTES} bytes)")
    assert len(entry.body.encode()) < BODY_BYTES + 40
    assert entry.attributes["long"] == "x" * VALUE_BYTES + f"… ({VALUE_BYTES + 1} bytes)"
    assert telemetry.record({"body": {"stringValue": "x" * BODY_BYTES}}).body == "x" * BODY_BYTES


def test_attributes_beyond_the_limit_are_counted(telemetry: OpenTelemetry) -> None:
    many = attributes(**{f"a{i}": "v" for i in range(ATTRIBUTES + 5)})
    entry = telemetry.record({"attributes": many, "droppedAttributesCount": 2})
    assert entry.attributes["otel.dropped_attributes_count"] == "7"
    assert len(entry.attributes) == ATTRIBUTES + 1
    record = LogRecord(attributes=[KeyValue(key=f"a{i}") for i in range(ATTRIBUTES + 5)])
    telemetry.post(protobuf(record), PROTOBUF)
    assert telemetry.logged[-1].attributes["otel.dropped_attributes_count"] == "5"


def test_attributes_without_a_name_are_counted_as_dropped(telemetry: OpenTelemetry) -> None:
    entry = telemetry.record({"attributes": attributes(**{"": "v", "k" * 257: "v", "a": "v"})})
    assert entry.attributes == {"a": "v", "otel.dropped_attributes_count": "2"}


def test_a_large_resource_does_not_multiply(telemetry: OpenTelemetry) -> None:
    resource = {"attributes": attributes(**{f"r{i}": "v" * 1000 for i in range(100)})}
    entry = telemetry.record(GOOD, resource=resource)
    assert sum(len(key) + len(text) for key, text in entry.attributes.items()) <= 8192


def test_other_signals_are_taken_and_dropped_with_one_notice(telemetry: OpenTelemetry) -> None:
    for _ in range(3):
        for path in ("/v1/traces", "/v1/metrics"):
            answer = telemetry.post(b"anything", PROTOBUF, path=path)
            assert (answer.status, answer.body) == (200, b"")
    assert [(entry.severity, entry.body.split()[1]) for entry in telemetry.logged] == [
        ("WARN", "traces"),
        ("WARN", "metrics"),
    ]
    assert telemetry.post(b"{}", path="/v1/traces").body == b"{}"


def test_requests_at_once_are_all_answered_and_closing_waits_for_them(telemetry: OpenTelemetry) -> None:
    large = json.dumps(logs(*[GOOD] * 400)).encode()

    async def main() -> None:
        asked = [asyncio.ensure_future(telemetry.ask(large)) for _ in range(20)]
        await asyncio.sleep(0)
        await telemetry.door.aclose()
        assert {answer.status for answer in await asyncio.gather(*asked)} == {200}

    asyncio.run(main())
    assert len(telemetry.logged) == 8000


@given(
    st.binary(max_size=200), st.sampled_from(["application/json", PROTOBUF]), st.sampled_from(["", "gzip"])
)
def test_no_bytes_make_it_fail(tmp_path_factory: Any, body: bytes, kind: str, packed: str) -> None:
    answer = OpenTelemetry(tmp_path_factory.getbasetemp()).post(body, kind, packed=packed)
    assert answer.status in (200, 400)


@given(st.data())
def test_a_document_with_flipped_bytes_never_makes_it_fail(
    tmp_path_factory: Any, data: st.DataObject
) -> None:
    document = bytearray(protobuf(*[LogRecord(body=AnyValue(string_value="body"), severity_number=9)] * 3))
    for _ in range(data.draw(st.integers(1, 4))):
        document[data.draw(st.integers(0, len(document) - 1))] = data.draw(st.integers(0, 255))
    answer = OpenTelemetry(tmp_path_factory.getbasetemp()).post(bytes(document), PROTOBUF)
    assert answer.status in (200, 400)


def test_records_of_a_guest_that_ends_without_waiting_are_kept(telemetry: OpenTelemetry) -> None:
    large = json.dumps(logs(*[GOOD] * 400)).encode()

    async def main() -> None:
        asked = [asyncio.ensure_future(telemetry.ask(large)) for _ in range(3)]
        await asyncio.sleep(0)
        for one in asked:
            one.cancel()
        await asyncio.wait(asked)
        await telemetry.door.aclose()

    asyncio.run(main())
    assert len(telemetry.logged) == 1200


def test_a_small_request_overtakes_no_larger_one_of_its_run(telemetry: OpenTelemetry) -> None:
    large, small = (
        json.dumps(logs(*[GOOD] * n, {"body": {"stringValue": f"{n}"}})).encode() for n in (400, 0)
    )

    async def main() -> None:
        await asyncio.gather(
            telemetry.ask(large),
            telemetry.ask(small),
            telemetry.ask(small, caller=Caller("jobs", "another")),
        )

    asyncio.run(main())
    assert [entry.body for entry in telemetry.logged if entry.body != "good"] == ["0", "400", "0"]
    assert telemetry.logged[0].caller.resource == "jobs"


def test_those_who_send_faster_than_it_reads_are_told_to_try_again(telemetry: OpenTelemetry) -> None:
    large = b'"' + b"x" * ((4 << 20) - 2) + b'"'

    async def main() -> set[int]:
        return {answer.status for answer in await asyncio.gather(*(telemetry.ask(large) for _ in range(20)))}

    assert asyncio.run(main()) == {400, 429}
