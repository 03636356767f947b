"""The fields of a record."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.door import Caller
from tests.doors.telemetry.telemetry_door import CALLER, NOW_NS, OpenTelemetry, attributes, logs

DAY_NS = 24 * 3600 * 10**9


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        (range(1, 5), "TRACE"),
        (range(5, 9), "DEBUG"),
        (range(9, 13), "INFO"),
        (range(13, 17), "WARN"),
        (range(17, 21), "ERROR"),
        (range(21, 25), "FATAL"),
        ((0, 25, -1, 2**31 - 1), "INFO"),
    ],
)
def test_severity_number_maps_to_name_of_range(
    severity: Callable[..., str], numbers: range, name: str
) -> None:
    assert {severity(number) for number in numbers} == {name}


def test_severity_number_overrides_text(severity: Callable[..., str]) -> None:
    assert severity(17, "debug") == "ERROR"


@pytest.mark.parametrize(
    ("text", "name"),
    [("warning", "WARN"), (" Error ", "ERROR"), ("critical", "FATAL"), ("DEBUG", "DEBUG"), ("odd", "INFO")],
)
def test_severity_text_applies_without_number(severity: Callable[..., str], text: str, name: str) -> None:
    assert severity(0, text) == name


def test_json_severity_number_accepts_enum_names(severity: Callable[..., str]) -> None:
    assert severity("SEVERITY_NUMBER_WARN") == "WARN"
    assert severity("SEVERITY_NUMBER_WARN4") == "WARN"
    assert severity("SEVERITY_NUMBER_FATAL2") == "FATAL"
    assert severity("13") == "WARN"


def test_distinct_severity_text_is_stored_as_attribute(telemetry: OpenTelemetry) -> None:
    assert telemetry.record({"severityNumber": 13, "severityText": "warn"}).attributes == {}
    stored = telemetry.record({"severityNumber": 9, "severityText": "Notice"}).attributes
    assert stored == {"severity_text": "Notice"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"stringValue": "plain"}, "plain"),
        ({"stringValue": ""}, ""),
        ({"boolValue": False}, "false"),
        ({"intValue": "-9223372036854775808"}, "-9223372036854775808"),
        ({"intValue": 12}, "12"),
        ({"doubleValue": 0.1}, "0.1"),
        ({"doubleValue": 3.0}, "3"),
        ({"doubleValue": 1e300}, "1e+300"),
        ({"doubleValue": "NaN"}, "NaN"),
        ({"doubleValue": "-Infinity"}, "-Infinity"),
        ({"bytesValue": "_-8"}, "/+8="),
        ({"arrayValue": {}}, "[]"),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"doubleValue": 1.5}}]}}, '{"a":1.5}'),
        ({"stringValue": None}, ""),
        ({"someday": 1}, ""),
        (None, ""),
    ],
)
def test_body_of_any_type_is_converted_to_text(telemetry: OpenTelemetry, value: Any, text: str) -> None:
    assert telemetry.record({"body": value}).body == text


def test_lone_surrogates_are_replaced(telemetry: OpenTelemetry) -> None:
    entry = telemetry.record(
        {"body": {"stringValue": "a\ud800b"}, "attributes": attributes(**{"k\udfff": "v"})}
    )
    assert entry.body.encode() == b"a?b"
    assert [key.encode() for key in entry.attributes] == [b"k?"]


def test_record_belongs_to_sending_request(telemetry: OpenTelemetry) -> None:
    record = {"traceId": "11" * 16, "spanId": "22" * 8, "body": {"stringValue": "mine"}}
    entry = telemetry.record(record, resource={"attributes": attributes(resource="other", request_id="7")})
    assert entry.caller == CALLER
    assert entry.attributes == {
        "trace_id": "11" * 16,
        "span_id": "22" * 8,
        "resource": "other",
        "request_id": "7",
    }


def test_known_or_invalid_trace_ids_are_omitted(telemetry: OpenTelemetry) -> None:
    for trace, span in [(CALLER.trace_id, CALLER.span_id), ("00" * 16, "00" * 8), ("zz" * 16, "1"), ("", "")]:
        assert telemetry.record({"traceId": trace, "spanId": span}).attributes == {}


@pytest.mark.parametrize(
    ("sent", "observed", "stored"),
    [
        (NOW_NS - 5, NOW_NS, NOW_NS - 5),
        (0, NOW_NS - 9, NOW_NS - 9),
        (0, 0, NOW_NS),
        (17, 0, NOW_NS),
        (2**64 - 1, NOW_NS - 9, NOW_NS - 9),
        (-1, 0, NOW_NS),
        (NOW_NS + 2 * DAY_NS, 0, NOW_NS),
        (NOW_NS + DAY_NS // 2, 0, NOW_NS + DAY_NS // 2),
        (1.5e18, 0, 1_500_000_000 * 10**9),
    ],
)
def test_implausible_time_is_replaced(
    telemetry: OpenTelemetry, sent: Any, observed: int, stored: int
) -> None:
    assert telemetry.record({"timeUnixNano": sent, "observedTimeUnixNano": observed}).time_ns == stored


def test_record_attribute_overrides_scope_and_resource(telemetry: OpenTelemetry) -> None:
    entry = telemetry.record(
        {"attributes": [*attributes(a="record"), *attributes(a="again")]},
        scope={"name": "lib", "attributes": attributes(a="scope", b="scope")},
        resource={"attributes": attributes(a="resource", b="resource", c="resource")},
    )
    assert entry.attributes == {"a": "record", "b": "scope", "c": "resource", "otel.scope.name": "lib"}


def test_sdk_and_host_attributes_of_resource_are_omitted(telemetry: OpenTelemetry) -> None:
    omitted = {"telemetry.sdk.language": "go", "process.pid": "1", "host.name": "x", "os.type": "y"}
    stored = {"service.name": "shop", "service.instance.id": "z"}
    resource = {"attributes": attributes(**omitted, **stored)}
    assert telemetry.record({}, resource=resource).attributes == {"service.name": "shop"}
    unknown = {"attributes": attributes(**{"service.name": "unknown_service:node"})}
    assert telemetry.record({}, resource=unknown).attributes == {}


def test_request_with_several_resources_is_stored(telemetry: OpenTelemetry) -> None:
    one, two = logs({"body": {"stringValue": "1"}}), logs({"body": {"stringValue": "2"}})
    telemetry.post_json({"resourceLogs": [*one["resourceLogs"], *two["resourceLogs"], {}, None]})
    assert [entry.body for entry in telemetry.logged] == ["1", "2"]


def test_records_have_resource_of_their_caller(telemetry: OpenTelemetry) -> None:
    for resource in ("api", "jobs"):
        telemetry.post(
            b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}]}', caller=Caller(resource, "r")
        )
    assert [entry.caller.resource for entry in telemetry.logged] == ["api", "jobs"]
