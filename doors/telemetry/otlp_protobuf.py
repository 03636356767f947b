"""Parser of logs, traces and metrics in protobuf, and encoder of the two response messages.

The wire format of the three outer messages is parsed here and each record is decoded alone. The messages of
all signals have the same fields. An invalid record does not affect the others, and a small body with very
many records cannot exhaust memory.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from doors.telemetry.signals import (
    MAX_ATTRIBUTES,
    MAX_FIELDS,
    BadRecord,
    LimitExceeded,
    Pairs,
    Point,
    Reader,
    Value,
    resource_attributes,
    scope_attributes,
)
from engine.measurement import MetricKind

MAX_RECORD_BYTES = 256 << 10
"""Maximum bytes of an encoded record, resource or scope."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def response(rejected: int, reason: str) -> bytes:
    """Return the response to any signal, empty if nothing was rejected."""
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service

    partial = service.ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=reason)
    message = service.ExportLogsServiceResponse(partial_success=partial if rejected else None)
    return bytes(message.SerializeToString())


def status(code: int, message: str) -> bytes:
    """Return a google.rpc.Status: its fields have the numbers and types of those of a partial success."""
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service

    fields = service.ExportLogsPartialSuccess(rejected_log_records=code, error_message=message)
    return bytes(fields.SerializeToString())


@cache
def _attribute(name: str) -> str:
    """Return the name of a field in Python for that in JSON."""
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


def _field(message: Any, name: str) -> Any:
    return getattr(message, _attribute(name))


def _metric(metric: Any) -> tuple[str, Any]:
    field = metric.WhichOneof("data") or ""
    return field, getattr(metric, field, None)


def _point(point: Any, kind: MetricKind | None) -> Point:
    if kind is None:
        return 0.0, (), ()
    if kind == "histogram":
        return point.sum, point.explicit_bounds, point.bucket_counts or (point.count,)
    return float(point.as_int if point.WhichOneof("value") == "as_int" else point.as_double), (), ()


def _value(value: Any) -> Value:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_value(item) for item in inner.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value) for pair in inner.values}
    plain: Value = inner
    return plain


def _pairs(attributes: Any) -> Pairs:
    return [(pair.key, _value(pair.value)) for pair in attributes[:MAX_ATTRIBUTES]]


def _id(message: Any, name: str, length: int) -> str:
    """Return an id as hex; empty if it is invalid, as in the OTLP data model."""
    raw = _field(message, name)
    return raw.hex() if 2 * len(raw) == length and any(raw) else ""


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return a varint and the position after it. Raises `ValueError`."""
    number = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise ValueError("a number in it has no end")


class ProtobufReader(Reader):
    """Reads a request in protobuf."""

    span_id = "span_id"
    string = integer = child = is_true = staticmethod(_field)
    number = staticmethod(lambda message, name: getattr(message, _attribute(name), 0))
    identifier = staticmethod(_id)
    items = staticmethod(lambda message, name: getattr(message, _attribute(name), ()))
    message = staticmethod(lambda item, _: item)
    pairs = staticmethod(_pairs)
    body = staticmethod(lambda record: _value(record.body))
    metric = staticmethod(_metric)
    point = staticmethod(_point)
    _passed = 0
    """The fields that were passed to find messages."""

    def read(self, data: bytes) -> None:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
        from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
        from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
        from opentelemetry.proto.resource.v1.resource_pb2 import Resource
        from opentelemetry.proto.trace.v1.trace_pb2 import Span

        item: Any = {"logs": LogRecord, "traces": Span, "metrics": Metric}[self.signal]

        def part(message: Any, attributes: memoryview) -> Any:
            encoded = b"".join(self._fields(attributes, 1))
            try:
                return message.FromString(encoded if len(encoded) <= MAX_RECORD_BYTES else b"")
            except DecodeError:
                raise ValueError(f"a {message.DESCRIPTOR.name} in it is malformed") from None

        def parse(encoded: memoryview) -> Any:
            if len(encoded) > MAX_RECORD_BYTES:
                raise BadRecord(f"it has {len(encoded)} bytes, more than {MAX_RECORD_BYTES}")
            try:
                return item.FromString(bytes(encoded))
            except DecodeError:
                raise BadRecord("it is malformed") from None

        self.parse = parse
        for outer in self._fields(memoryview(data), 1):
            self.take()
            shared = resource_attributes(_pairs(part(Resource, outer).attributes))
            for inner in self._fields(outer, 2):
                self.take()
                scope = part(InstrumentationScope, inner)
                around = scope_attributes(scope.name, scope.version, _pairs(scope.attributes), shared)
                for encoded in self._fields(inner, 2):
                    self.add(encoded, around)

    def _fields(self, data: memoryview, number: int) -> Iterator[memoryview]:
        """Yield the length-delimited fields with a number. Raises `ValueError` and `LimitExceeded`.

        Protocol Buffers' encoding: a varint of number and wire type, then the value.
        """
        position = 0
        while position < len(data):
            self._passed += 1
            if self._passed > MAX_FIELDS:
                raise LimitExceeded(self.most)
            key, position = _read_varint(data, position)
            wire, start = key & 7, position
            if wire == _LENGTH:
                size, start = _read_varint(data, position)
                position = start + size
            elif wire == _VARINT:
                _, position = _read_varint(data, position)
            elif wire in (_FIXED64, _FIXED32):
                position += 8 if wire == _FIXED64 else 4
            else:
                raise ValueError(f"wire type {wire} does not exist")
            if position > len(data):
                raise ValueError("it ends in the middle of a field")
            if key >> 3 == 0:
                raise ValueError("a field has the number 0")
            if wire == _LENGTH and key >> 3 == number:
                yield data[start:position]
