from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from engine.wasm.execution.buffers import BUFFER_BYTES, InputBuffer, LineSplitter, OutputBuffer


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 40), min_size=1))
def test_input_buffer_returns_every_byte_in_order(chunks: list[bytes], reads: list[int]) -> None:
    flow = InputBuffer()
    for chunk in chunks:
        flow.feed(chunk)
    flow.end()
    got, turn = b"", 0
    while not flow.exhausted:
        got += flow.take(reads[turn % len(reads)])
        turn += 1
    assert got == b"".join(chunks)


def test_input_buffer_joins_small_parts() -> None:
    flow = InputBuffer()
    for _ in range(5000):
        flow.feed(b"x")
    assert [len(flow.take(limit)) for limit in (10, 4096, 1 << 63)] == [10, 4096, 5000 - 10 - 4096]


def test_input_buffer_is_ready_for_bytes_end_or_error() -> None:
    flow = InputBuffer()
    assert not flow.ready()
    flow.feed(b"")
    assert not flow.ready()
    flow.feed(b"x")
    assert flow.ready()
    flow.take(1)
    assert not flow.ready()
    flow.end(("HTTP-protocol-error", None))
    assert flow.ready() and flow.exhausted


def test_input_buffer_reports_drained_below_its_limit() -> None:
    calls: list[int] = []
    flow = InputBuffer()
    flow.on_drained = lambda: calls.append(1)
    flow.feed(bytes(BUFFER_BYTES))
    assert flow.full
    flow.take(1)
    assert not flow.full and calls


def test_input_buffer_discarded_accepts_nothing() -> None:
    flow = InputBuffer()
    flow.feed(b"abc")
    flow.discard()
    flow.feed(b"def")
    assert flow.take(10) == b""
    assert not flow.full


@given(st.lists(st.binary(max_size=50)))
def test_output_buffer_returns_every_byte_in_order(chunks: list[bytes]) -> None:
    flow = OutputBuffer()
    for chunk in chunks:
        flow.put(chunk)
    assert flow.drain() == b"".join(chunks)
    assert flow.empty and flow.room() == BUFFER_BYTES


def test_output_buffer_full_applies_backpressure() -> None:
    flow = OutputBuffer()
    flow.put(bytes(BUFFER_BYTES))
    assert flow.room() == 0 and not flow.ready()
    flow.drain()
    assert flow.room() == BUFFER_BYTES and flow.ready()


def test_output_buffer_broken_wakes_writer() -> None:
    flow = OutputBuffer()
    flow.put(bytes(BUFFER_BYTES))
    flow.broken = "closed"
    assert flow.ready()


def lines(*writes: bytes) -> list[str]:
    queue: deque[tuple[str, str]] = deque()
    printer = LineSplitter("stdout", queue)
    for data in writes:
        printer.put(data)
    printer.finish()
    return [text for _, text in queue]


def test_lines_are_split_at_newlines_across_writes() -> None:
    assert lines(b"one\ntw", b"o\r\nthr", b"ee") == ["one", "two", "three"]


def test_overlong_line_is_split() -> None:
    assert [len(line) for line in lines(b"x" * (LineSplitter.MAX_LINE_CHARS * 2 + 5))] == [
        LineSplitter.MAX_LINE_CHARS,
        LineSplitter.MAX_LINE_CHARS,
        5,
    ]


def test_excess_output_is_truncated_with_one_notice() -> None:
    got = lines(*[b"y" * 1000 + b"\n"] * 3000)
    assert len(got) == LineSplitter.MAX_BYTES // 1001 + 1
    assert "truncated" in got[-1]


def test_invalid_utf8_is_replaced() -> None:
    assert lines(b"\xff\xfe ok\n") == ["\ufffd\ufffd ok"]
