"""Malformed and oversized requests, wrong paths, and invalid records among valid ones."""

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

from doors.telemetry.door import MAX_REQUEST_BYTES
from doors.telemetry.otlp_json import MAX_VALUES
from doors.telemetry.otlp_protobuf import MAX_RECORD_BYTES
from doors.telemetry.signals import MAX_ATTRIBUTES, MAX_BODY_BYTES, MAX_FIELDS, MAX_PARTS, MAX_VALUE_BYTES
from engine.door import Caller
from tests.doors.telemetry.telemetry_door import OpenTelemetry, attributes, length_prefixed, logs

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
def test_invalid_json_record_is_rejected_alone(telemetry: OpenTelemetry, bad: Any) -> None:
    answer = telemetry.post_json(logs(GOOD, bad, GOOD))
    partial = json.loads(answer.body)["partialSuccess"]
    assert (answer.status, partial["rejectedLogRecords"]) == (200, "1")
    assert partial["errorMessage"].startswith("record 2: ")
    assert [entry.body for entry in telemetry.logged] == ["good", "good"]


def test_invalid_protobuf_record_is_rejected_alone(telemetry: OpenTelemetry) -> None:
    good = LogRecord(body=AnyValue(string_value="good"))
    data = protobuf(good, LogRecord(severity_text="BROKEN"), good).replace(
        b"BROKEN", b"\xff\xfe\xff\xfe\xff\xfe"
    )
    answer = telemetry.post(data, PROTOBUF)
    partial = ExportLogsServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, partial.rejected_log_records) == (200, 1)
    assert partial.error_message == "record 2: it is malformed"
    assert [entry.body for entry in telemetry.logged] == ["good", "good"]


def test_oversized_protobuf_record_is_rejected_alone(telemetry: OpenTelemetry) -> None:
    large = LogRecord(body=AnyValue(string_value="x" * MAX_RECORD_BYTES))
    answer = telemetry.post(protobuf(large, LogRecord(body=AnyValue(string_value="good"))), PROTOBUF)
    partial = ExportLogsServiceResponse.FromString(answer.body).partial_success
    assert partial.rejected_log_records == 1 and "262" in partial.error_message
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
        b'{"resourceLogs":[' + b"9" * 100_000 + b"]}",
        b'{"resourceLogs":["' + b"x" * 100_000 + b'" 1]}',
    ],
)
def test_malformed_json_request_is_refused(telemetry: OpenTelemetry, body: bytes) -> None:
    answer = telemetry.post(body)
    status = json.loads(answer.body)
    assert (answer.status, status["code"]) == (400, 3)
    assert status["message"].startswith("the body is not an ExportLogsServiceRequest: ")
    assert "sys." not in status["message"]
    assert telemetry.logged == []


def test_document_with_too_many_values_is_refused(telemetry: OpenTelemetry) -> None:
    answer = telemetry.post(b'{"x":[' + b"1," * MAX_VALUES + b"1]}")
    message = json.loads(answer.body)["message"]
    assert (answer.status, message.rpartition(": ")[2]) == (400, "it has more than 1,000,000 values")


def test_long_document_is_logged_like_a_short_one(telemetry: OpenTelemetry) -> None:
    assert telemetry.post_json(logs(*[GOOD] * 3000)).status == 200
    assert [entry.body for entry in telemetry.logged] == ["good"] * 3000


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
def test_malformed_protobuf_request_is_refused(telemetry: OpenTelemetry, body: bytes) -> None:
    answer = telemetry.post(body, PROTOBUF)
    status = Status.FromString(answer.body)
    assert (answer.status, status.code, dict(answer.headers)["content-type"]) == (400, 3, PROTOBUF.encode())
    assert status.message.startswith("the body is not an ExportLogsServiceRequest: ")
    assert telemetry.logged == []


def test_deeply_nested_value_rejects_record(telemetry: OpenTelemetry) -> None:
    value: Any = {"stringValue": "deep"}
    deep = AnyValue(string_value="deep").SerializeToString()
    for depth in range(200):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
        deep = b"\x2a" + length_prefixed(b"\x0a" + length_prefixed(deep))
        if depth == 40:
            assert telemetry.record({"body": value}).body.endswith('{"k":"deep"}' + "}" * 40)
    assert json.loads(telemetry.post_json(logs({"body": value})).body)["partialSuccess"]
    answer = telemetry.post(
        b"\x0a"
        + length_prefixed(
            b"\x12" + length_prefixed(b"\x12" + length_prefixed(b"\x2a" + length_prefixed(deep)))
        ),
        PROTOBUF,
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
def test_request_outside_otlp_http_is_refused_with_status(
    telemetry: OpenTelemetry, options: dict[str, str], status: int, code: int
) -> None:
    answer = telemetry.post(b"{}", **options)
    assert (answer.status, json.loads(answer.body)["code"]) == (status, code)
    assert (("allow", b"POST") in answer.headers) == (status == 405)


def test_truncated_gzip_is_refused(telemetry: OpenTelemetry) -> None:
    data = gzip.compress(json.dumps(logs(GOOD)).encode())
    for broken in (data[:-9], data[:12], b""):
        assert telemetry.post(broken, packed="gzip").status == 400


def test_gzip_bomb_is_refused_in_bounded_memory(telemetry: OpenTelemetry) -> None:
    bomb = gzip.compress(bytes(256 << 20), compresslevel=1)
    tracemalloc.start()
    answer = telemetry.post(bomb, packed="gzip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status == 413
    assert peak < 4 * MAX_REQUEST_BYTES


@pytest.mark.parametrize("kind", ["application/json", PROTOBUF])
def test_request_over_record_limit_is_refused(telemetry: OpenTelemetry, kind: str) -> None:
    if kind == PROTOBUF:
        data = protobuf(*[LogRecord()] * (MAX_PARTS + 1))
    else:
        data = json.dumps(logs(*[{}] * (MAX_PARTS + 1))).encode()
    answer = telemetry.post(data, kind)
    assert answer.status == 413
    assert telemetry.logged == []


@pytest.mark.parametrize("nested", [0, 1, 2])
def test_protobuf_of_many_unknown_fields_is_refused(telemetry: OpenTelemetry, nested: int) -> None:
    data = b"\x18\x00" * (MAX_FIELDS + 1)
    for field in (2, 1)[2 - nested :]:
        data = bytes([field << 3 | 2]) + length_prefixed(data)
    assert telemetry.post(data, PROTOBUF).status == 413
    assert telemetry.logged == []


def test_batch_of_512_records_is_accepted(telemetry: OpenTelemetry) -> None:
    assert json.loads(telemetry.post_json(logs(*[GOOD] * 512)).body) == {}
    assert len(telemetry.logged) == 512


def test_long_body_and_values_are_truncated_with_size(telemetry: OpenTelemetry) -> None:
    entry = telemetry.record(
        {
            "body": {"stringValue": "ü" * MAX_BODY_BYTES},
            "attributes": attributes(long="x" * (MAX_VALUE_BYTES + 1)),
        }
    )
    assert entry.body.endswith(f"ü… ({2 * MAX_BODY_BYTES} bytes)")
    assert len(entry.body.encode()) < MAX_BODY_BYTES + 40
    assert entry.attributes["long"] == "x" * MAX_VALUE_BYTES + f"… ({MAX_VALUE_BYTES + 1} bytes)"
    assert telemetry.record({"body": {"stringValue": "x" * MAX_BODY_BYTES}}).body == "x" * MAX_BODY_BYTES


def test_attributes_over_limit_are_counted_as_dropped(telemetry: OpenTelemetry) -> None:
    many = attributes(**{f"a{i}": "v" for i in range(MAX_ATTRIBUTES + 5)})
    entry = telemetry.record({"attributes": many, "droppedAttributesCount": 2})
    assert entry.attributes["otel.dropped_attributes_count"] == "7"
    assert len(entry.attributes) == MAX_ATTRIBUTES + 1
    record = LogRecord(attributes=[KeyValue(key=f"a{i}") for i in range(MAX_ATTRIBUTES + 5)])
    telemetry.post(protobuf(record), PROTOBUF)
    assert telemetry.logged[-1].attributes["otel.dropped_attributes_count"] == "5"


def test_attributes_with_invalid_name_are_counted_as_dropped(telemetry: OpenTelemetry) -> None:
    entry = telemetry.record({"attributes": attributes(**{"": "v", "k" * 257: "v", "a": "v"})})
    assert entry.attributes == {"a": "v", "otel.dropped_attributes_count": "2"}


def test_resource_attributes_are_limited_per_record(telemetry: OpenTelemetry) -> None:
    resource = {"attributes": attributes(**{f"r{i}": "v" * 1000 for i in range(100)})}
    entry = telemetry.record(GOOD, resource=resource)
    assert sum(len(key) + len(text) for key, text in entry.attributes.items()) <= 8192


def test_close_waits_for_concurrent_requests(telemetry: OpenTelemetry) -> None:
    large = json.dumps(logs(*[GOOD] * 400)).encode()

    async def main() -> None:
        requests = [asyncio.ensure_future(telemetry.send(large)) for _ in range(20)]
        await asyncio.sleep(0)
        await telemetry.door.aclose()
        assert {answer.status for answer in await asyncio.gather(*requests)} == {200}

    asyncio.run(main())
    assert len(telemetry.logged) == 8000


@given(
    st.binary(max_size=200), st.sampled_from(["application/json", PROTOBUF]), st.sampled_from(["", "gzip"])
)
def test_random_body_is_answered(tmp_path_factory: Any, body: bytes, kind: str, packed: str) -> None:
    answer = OpenTelemetry(tmp_path_factory.getbasetemp()).post(body, kind, packed=packed)
    assert answer.status in (200, 400)


@given(st.data())
def test_mutated_protobuf_request_is_answered(tmp_path_factory: Any, data: st.DataObject) -> None:
    document = bytearray(protobuf(*[LogRecord(body=AnyValue(string_value="body"), severity_number=9)] * 3))
    for _ in range(data.draw(st.integers(1, 4))):
        document[data.draw(st.integers(0, len(document) - 1))] = data.draw(st.integers(0, 255))
    answer = OpenTelemetry(tmp_path_factory.getbasetemp()).post(bytes(document), PROTOBUF)
    assert answer.status in (200, 400)


def test_records_of_canceled_request_are_stored(telemetry: OpenTelemetry) -> None:
    large = json.dumps(logs(*[GOOD] * 400)).encode()

    async def main() -> None:
        requests = [asyncio.ensure_future(telemetry.send(large)) for _ in range(3)]
        await asyncio.sleep(0)
        for request in requests:
            request.cancel()
        await asyncio.wait(requests)
        await telemetry.door.aclose()

    asyncio.run(main())
    assert len(telemetry.logged) == 1200


def test_requests_of_one_run_are_stored_in_order(telemetry: OpenTelemetry) -> None:
    large, small = (
        json.dumps(logs(*[GOOD] * n, {"body": {"stringValue": f"{n}"}})).encode() for n in (400, 0)
    )

    async def main() -> None:
        await asyncio.gather(
            telemetry.send(large),
            telemetry.send(small),
            telemetry.send(small, caller=Caller("jobs", "another")),
        )

    asyncio.run(main())
    assert [entry.body for entry in telemetry.logged if entry.body != "good"] == ["0", "400", "0"]
    assert telemetry.logged[0].caller.resource == "jobs"


def test_requests_over_queue_limit_are_429(telemetry: OpenTelemetry) -> None:
    large = b'"' + b"x" * ((4 << 20) - 2) + b'"'

    async def main() -> set[int]:
        return {answer.status for answer in await asyncio.gather(*(telemetry.send(large) for _ in range(20)))}

    assert asyncio.run(main()) == {400, 429}
