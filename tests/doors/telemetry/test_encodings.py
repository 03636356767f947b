"""Encodings of OTLP: JSON and protobuf, plain and compressed."""

import gzip
import json
import zlib

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from engine.door import LogEntry
from tests.doors.telemetry.telemetry_door import CALLER, GOLDEN, OpenTelemetry, length_prefixed

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
EXPECTED = LogEntry(
    1799999999123456789,
    "INFO",
    "entry written",
    {
        "text": "grüße",
        "yes": "true",
        "int": "9223372036854775807",
        "small": "-7",
        "double": "12.25",
        "bytes": "AAH/",
        "list": '["a",2,null]',
        "map": '{"k":"AA=="}',
        "empty": "",
        "event.name": "entry.written",
        "severity_text": "Information",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "span_id": "00f067aa0ba902b7",
        "otel.dropped_attributes_count": "2",
        "otel.scope.name": "guestbook.entries",
        "otel.scope.version": "2.1.0",
        "tier": "back",
        "service.name": "guestbook",
        "deployment.environment.name": "test",
    },
    CALLER,
)


def json_body() -> bytes:
    return (GOLDEN / "logs.json").read_bytes()


def protobuf_body() -> bytes:
    """The golden document through protobuf's own reader of JSON, ids put in afterwards."""
    document = json.loads(json_body())
    record = document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    ids = [bytes.fromhex(record.pop(name)) for name in ("traceId", "spanId")]
    message = json_format.ParseDict(document, ExportLogsServiceRequest())
    parsed_record = message.resource_logs[0].scope_logs[0].log_records[0]
    parsed_record.trace_id, parsed_record.span_id = ids
    return message.SerializeToString()


@pytest.mark.parametrize("packed", ["", "gzip", "deflate"])
@pytest.mark.parametrize(("kind", "body"), [(JSON, json_body), (PROTOBUF, protobuf_body)])
def test_every_encoding_is_decoded_to_same_entry(telemetry, kind, body, packed) -> None:  # type: ignore[no-untyped-def]
    data = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress}[packed](body())
    answer = telemetry.post(data, kind, packed=packed)
    assert (answer.status, dict(answer.headers)["content-type"]) == (200, kind.encode())
    assert answer.body == (b"{}" if kind == JSON else b"")
    assert telemetry.logged == [EXPECTED]
    assert list(telemetry.logged[0].attributes) == list(EXPECTED.attributes) or kind == PROTOBUF


def test_content_type_parameters_and_case_are_ignored(telemetry: OpenTelemetry) -> None:
    assert telemetry.post(json_body(), "Application/JSON; charset=utf-8").status == 200
    assert telemetry.logged == [EXPECTED]


def test_body_without_content_type_is_decoded_as_json(telemetry: OpenTelemetry) -> None:
    assert telemetry.post(json_body(), "").status == 200
    assert telemetry.logged == [EXPECTED]


def test_protobuf_accepts_any_field_order_and_unknown_fields(telemetry: OpenTelemetry) -> None:
    message = ExportLogsServiceRequest.FromString(protobuf_body())
    scope_logs = message.resource_logs[0].scope_logs[0]
    record = b"\x12" + length_prefixed(scope_logs.log_records[0].SerializeToString())
    scope = b"\x0a" + length_prefixed(scope_logs.scope.SerializeToString())
    unknown = b"\xf8\x01\x05" + b"\xf9\x01" + bytes(8) + b"\xfd\x01" + bytes(4)
    inner = b"\x12" + length_prefixed(unknown + record + scope)
    resource = b"\x0a" + length_prefixed(message.resource_logs[0].resource.SerializeToString())
    telemetry.post(b"\x0a" + length_prefixed(inner + unknown + resource), PROTOBUF)
    assert telemetry.logged == [EXPECTED]
