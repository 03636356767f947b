"""Spans of the code in the trace of a request."""

from time import perf_counter_ns, time_ns

import pytest

from engine.trace import MAX_CALLS, MAX_SPAN_BYTES, Call, RequestTrace, TraceEnded, call_id, span_ids

REQUEST_SPAN = "00f067aa0ba902b7"


def span(number: int, parent: int = 0, *, name: str = "work") -> Call:
    """Return a span of one millisecond that ends now."""
    return Call(
        "span",
        name,
        time_ns() - 1_000_000,
        wall_ns=1_000_000,
        span_id=f"{number:016x}",
        parent_id=f"{parent:016x}" if parent else "",
    )


def finished(*spans: Call, trace: RequestTrace | None = None) -> tuple[Call, ...]:
    """Return the calls of a request that began ten milliseconds ago."""
    trace = trace or RequestTrace()
    started = perf_counter_ns() - 10_000_000
    trace.add_spans(spans)
    return trace.finish(started, REQUEST_SPAN)


def test_parents_are_resolved_in_any_order() -> None:
    calls = finished(span(3, 2), span(2, 1), span(1), span(4, 99))
    assert [call.parent for call in calls] == [1, 2, -1, -1]
    assert span_ids(REQUEST_SPAN, calls) == [f"{number:016x}" for number in (3, 2, 1, 4)]


def test_call_whose_parent_is_a_span_is_below_it() -> None:
    trace = RequestTrace()
    call = trace.begin("fetch", "GET https://a.test")
    assert call is not None
    call.parent_id = f"{7:016x}"
    fetch, own = finished(span(7), trace=trace)
    assert (fetch.parent, own.parent) == (1, -1)


def test_span_time_is_within_the_request() -> None:
    early, late, inside = span(1), span(2), span(3)
    early.start_ns -= 3600 * 10**9
    early.wall_ns = 7200 * 10**9
    late.start_ns += 3600 * 10**9
    calls = finished(early, late, inside)
    assert calls[0].start_ns == 0 and calls[0].wall_ns >= 10_000_000
    assert calls[1].wall_ns == 0 and calls[1].start_ns >= 10_000_000
    assert calls[2].wall_ns == pytest.approx(1_000_000, abs=200_000)
    assert max(call.start_ns + call.wall_ns for call in calls) <= calls[1].start_ns


def test_cycles_and_ids_of_others_end_at_the_request() -> None:
    itself, first, second = span(1, 1), span(2, 3), span(3, 2)
    request, call = span(9), span(10)
    request.span_id, call.span_id = REQUEST_SPAN, call_id(REQUEST_SPAN, 0)
    calls = finished(itself, first, second, request, call, span(3))
    assert [each.parent for each in calls] == [-1, -1, 1, -1, -1]
    ids = span_ids(REQUEST_SPAN, calls)
    assert len({*ids, REQUEST_SPAN}) == 6


def test_number_and_size_of_spans_are_limited() -> None:
    trace = RequestTrace()
    assert trace.add_spans(span(number) for number in range(1, MAX_CALLS + 11)) == 10
    assert len(finished(trace=trace)) == MAX_CALLS and trace.omitted == 10
    trace = RequestTrace()
    assert trace.add_spans(span(number, name="ü" * 1000) for number in range(1, 101)) > 50
    assert sum(len(call.name.encode()) for call in finished(trace=trace)) <= MAX_SPAN_BYTES


def test_span_after_the_end_is_refused() -> None:
    trace = RequestTrace()
    finished(trace=trace)
    with pytest.raises(TraceEnded):
        trace.add_spans([span(1)])
