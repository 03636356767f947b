"""Spans of guests over OTLP: they become calls of the request, and their events log records."""

import json
from time import perf_counter_ns, time_ns
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode

from doors.telemetry.signals import MAX_SPAN_ATTRIBUTES
from engine.trace import MAX_CALLS, Call, RequestTrace
from tests.doors.telemetry.telemetry_door import CALLER, NOW_NS, OpenTelemetry, attributes

PROTOBUF = "application/x-protobuf"
SPAN: dict[str, Any] = {"traceId": "a" * 32, "spanId": "1" * 16, "name": "work"}


class _Collected(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Any) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


def of_sdk() -> bytes:
    """Return the request of OpenTelemetry's SDK for two spans, the inner of which raised an exception."""
    collected = _Collected()
    provider = TracerProvider(resource=Resource.create({"service.name": "shop", "host.name": "here"}))
    provider.add_span_processor(SimpleSpanProcessor(collected))
    tracer = provider.get_tracer("shop.orders", "1.0")
    with (
        tracer.start_as_current_span("order", kind=SpanKind.SERVER, attributes={"order": 42}),
        pytest.raises(RuntimeError),
        tracer.start_as_current_span("reserve"),
    ):
        raise RuntimeError("out of stock")
    provider.shutdown()
    assert [span.status.status_code for span in collected.spans] == [StatusCode.ERROR, StatusCode.UNSET]
    return encode_spans(collected.spans).SerializeToString()


def spans(*items: Any, scope: Any = None) -> bytes:
    """Return an ExportTraceServiceRequest as JSON has it."""
    scopes = {"spans": list(items)} | ({"scope": scope} if scope else {})
    return json.dumps({"resourceSpans": [{"scopeSpans": [scopes]}]}).encode()


def finished(trace: RequestTrace) -> tuple[Call, ...]:
    return trace.finish(perf_counter_ns() - 10**9, CALLER.span_id)


def test_spans_of_the_sdk_are_calls_and_their_exceptions_are_errors(telemetry: OpenTelemetry) -> None:
    trace = RequestTrace()
    answer = telemetry.post(of_sdk(), PROTOBUF, path="/v1/traces", trace=trace)
    assert (answer.status, answer.body) == (200, b"")
    inner, outer = finished(trace)
    assert (inner.kind, inner.name, inner.code, inner.parent) == ("span", "reserve", "error", 1)
    assert inner.details is not None and outer.details is not None
    assert inner.details["otel.status_description"] == "RuntimeError: out of stock"
    assert (outer.name, outer.code, outer.parent) == ("order", "", -1)
    assert outer.details["span.kind"] == "server" and outer.details["order"] == "42"
    assert outer.details["otel.scope.name"] == "shop.orders" and "host.name" not in outer.details
    assert (
        outer.start_ns <= inner.start_ns <= inner.start_ns + inner.wall_ns <= outer.start_ns + outer.wall_ns
    )
    (entry,) = telemetry.logged
    assert (entry.severity, entry.body, entry.caller) == ("ERROR", "out of stock", CALLER)
    assert entry.attributes["exception.type"] == "RuntimeError"
    assert entry.attributes["span_id"] == inner.span_id


def test_json_names_of_enums_and_events_are_read(telemetry: OpenTelemetry) -> None:
    trace, start = RequestTrace(), time_ns() - 2_000_000
    span = SPAN | {
        "traceId": CALLER.trace_id.upper(),
        "parentSpanId": "2" * 16,
        "kind": "SPAN_KIND_CLIENT",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": start + 1_000_000,
        "status": {"code": "STATUS_CODE_ERROR", "message": "late"},
        "events": [{"name": "retried", "timeUnixNano": str(NOW_NS), "attributes": attributes(n="2")}],
    }
    body = spans(span, SPAN | {"spanId": "2" * 16, "kind": 3, "status": {"code": 1}})
    assert telemetry.post(body, path="/v1/traces", trace=trace).body == b"{}"
    first, second = finished(trace)
    assert first.details == {"span.kind": "client", "otel.status_description": "late"}
    assert (first.code, first.parent, first.wall_ns) == ("error", 1, 1_000_000)
    assert second.details == {"span.kind": "client", "trace_id": "a" * 32} and second.code == ""
    (event,) = telemetry.logged
    assert (event.severity, event.body, event.time_ns) == ("INFO", "retried", NOW_NS)
    assert event.attributes == {"n": "2", "event.name": "retried", "span_id": "1" * 16}


def test_dropped_attributes_of_an_event_are_counted(telemetry: OpenTelemetry) -> None:
    event = {"name": "retried", "attributes": attributes(n="2"), "droppedAttributesCount": 3}
    telemetry.post(spans(SPAN | {"events": [event]}), path="/v1/traces", trace=RequestTrace())
    (entry,) = telemetry.logged
    assert entry.attributes["otel.dropped_attributes_count"] == "3"


@pytest.mark.parametrize(
    "broken", [{"spanId": ""}, {"spanId": "0" * 16}, {"name": 5}, {"status": []}, {"events": [3]}]
)
def test_invalid_span_is_rejected_alone(telemetry: OpenTelemetry, broken: Any) -> None:
    trace = RequestTrace()
    answer = telemetry.post(spans(SPAN, SPAN | broken), path="/v1/traces", trace=trace)
    partial = json.loads(answer.body)["partialSuccess"]
    assert (answer.status, partial["rejectedSpans"]) == (200, "1")
    assert partial["errorMessage"].startswith("span 2: ")
    assert [call.name for call in finished(trace)] == ["work"]


def test_spans_above_the_limits_are_rejected(telemetry: OpenTelemetry) -> None:
    trace = RequestTrace()
    pairs = attributes(**{f"k{number}": "v" for number in range(100)})
    many = [SPAN | {"spanId": f"{number:016x}"} for number in range(1, MAX_CALLS + 6)]
    body = spans(SPAN | {"attributes": pairs}, *many)
    answer = telemetry.post(body, path="/v1/traces", trace=trace)
    assert json.loads(answer.body)["partialSuccess"]["rejectedSpans"] == "6"
    first, *others = finished(trace)
    assert first.details is not None and len(others) == MAX_CALLS - 1
    assert len(first.details) == MAX_SPAN_ATTRIBUTES + 1
    assert first.details["otel.dropped_attributes_count"] == str(101 - MAX_SPAN_ATTRIBUTES)


def test_spans_after_the_end_of_the_request_are_reported(telemetry: OpenTelemetry) -> None:
    trace = RequestTrace()
    finished(trace)
    answer = telemetry.post(spans(SPAN), path="/v1/traces", trace=trace)
    assert json.loads(answer.body)["partialSuccess"]["rejectedSpans"] == "1"
    (entry,) = telemetry.logged
    assert entry.severity == "WARN" and entry.body.startswith("spans were dropped")
