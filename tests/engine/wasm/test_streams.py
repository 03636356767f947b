from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from engine.wasm.execution.buffers import BUFFER_BYTES, InputBuffer, LineSplitter, OutputBuffer


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 40), min_size=1))
def test_inflow_hands_on_every_byte_in_order(chunks: list[bytes], reads: list[int]) -> None:
    flow = InputBuffer()
    for chunk in chunks:
        flow.feed(chunk)
    flow.end()
    got, turn = b"", 0
    while not flow.exhausted:
        got += flow.take(reads[turn % len(reads)])
        turn += 1
    assert got == b"".join(chunks)


def test_inflow_is_ready_for_bytes_an_end_or_an_error_only() -> None:
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


def test_inflow_reports_room_when_it_falls_below_its_budget() -> None:
    calls: list[int] = []
    flow = InputBuffer()
    flow.on_drained = lambda: calls.append(1)
    flow.feed(bytes(BUFFER_BYTES))
    assert flow.full
    flow.take(1)
    assert not flow.full and calls


def test_inflow_that_was_let_go_takes_nothing() -> None:
    flow = InputBuffer()
    flow.feed(b"abc")
    flow.discard()
    flow.feed(b"def")
    assert flow.take(10) == b""
    assert not flow.full


@given(st.lists(st.binary(max_size=50)))
def test_outflow_hands_on_every_byte_in_order(chunks: list[bytes]) -> None:
    flow = OutputBuffer()
    for chunk in chunks:
        flow.put(chunk)
    assert flow.total == sum(map(len, chunks))
    assert flow.drain() == b"".join(chunks)
    assert flow.empty and flow.room() == BUFFER_BYTES


def test_outflow_holds_its_producer_back_at_the_budget() -> None:
    flow = OutputBuffer()
    flow.put(bytes(BUFFER_BYTES))
    assert flow.room() == 0 and not flow.ready()
    flow.drain()
    assert flow.room() == BUFFER_BYTES and flow.ready()


def test_outflow_that_broke_wakes_its_producer() -> None:
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


def test_lines_are_cut_at_newlines_wherever_the_writes_end() -> None:
    assert lines(b"one\ntw", b"o\r\nthr", b"ee") == ["one", "two", "three"]


def test_a_line_that_never_ends_is_cut() -> None:
    assert [len(line) for line in lines(b"x" * (LineSplitter.MAX_LINE_CHARS * 2 + 5))] == [
        LineSplitter.MAX_LINE_CHARS,
        LineSplitter.MAX_LINE_CHARS,
        5,
    ]


def test_a_flood_is_cut_with_one_line_that_says_so() -> None:
    got = lines(*[b"y" * 1000 + b"\n"] * 3000)
    assert len(got) == LineSplitter.MAX_BYTES // 1001 + 1
    assert "truncated" in got[-1]


def test_bytes_that_are_not_text_are_shown_as_replaced() -> None:
    assert lines(b"\xff\xfe ok\n") == ["\ufffd\ufffd ok"]
