"""Requests parsed by this server, by h11, Node.js and Go: they agree on all that both of two accept."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import h11
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine import eager
from engine.http.buffered import BufferedCounts
from engine.http.connection import PendingWrites
from engine.http.exchange import BodyInterrupted
from engine.http.h1 import Http1Connection, Http1Exchange
from tests.support.examples import examples

Message = tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]
"""Method, target, header fields and body."""
ReadByBoth = Callable[[bytes], tuple[list[Message], list[Message]]]
PARSER = Path(__file__).with_name("parser")


class Transport(asyncio.Transport):
    """A transport that discards what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def write(self, data: Any) -> None:
        pass

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Manager:
    """Answers requests with 404, and collects those that are complete."""

    stopping = terminated = False

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.pending_writes = PendingWrites()
        self.unread = BufferedCounts()

    def count_address(self, counts: BufferedCounts, client: Any) -> list[Any]:
        return []

    def opened(self, connection: Any) -> None:
        pass

    def upgrade(self, connection: Any, data: bytes) -> None:
        connection.close()

    def start(self, exchange: Any) -> None:
        eager.start(self._handle(exchange))

    async def _handle(self, exchange: Any) -> None:
        assert isinstance(exchange, Http1Exchange)
        request, body = exchange.request, b""
        try:
            while part := await exchange.body.read():
                body += part
        except BodyInterrupted:
            return
        target = request.path.encode() + (b"?" + request.query if request.query else b"")
        self.messages.append((request.method.encode(), target, request.headers, body))
        await exchange.send_head(404, [(b"content-length", b"0")])
        await exchange.send_body(b"", end=True)


def read_here(parts: list[bytes]) -> list[Message]:
    async def main() -> list[Message]:
        manager, transport = Manager(), Transport()
        connection = Http1Connection(manager, lambda connection: None)
        connection.connection_made(transport)
        for part in parts:
            if not transport.closed:
                connection.data_received(part)
            for _ in range(3):
                await asyncio.sleep(0)
        for _ in range(40):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        await asyncio.sleep(0)
        return manager.messages

    return asyncio.run(main())


def read_by_h11(data: bytes) -> list[Message]:
    """Parse requests by h11, without an empty line before one, which h11 does not ignore (RFC 9112 2.2)."""
    messages = list[Message]()
    try:
        while True:
            connection = h11.Connection(h11.SERVER)
            connection.receive_data(data.removeprefix(b"\r\n"))
            connection.receive_data(b"")
            request = connection.next_event()
            if not isinstance(request, h11.Request):
                return messages
            body = b""
            while not isinstance(event := connection.next_event(), h11.EndOfMessage):
                if not isinstance(event, h11.Data):
                    return messages
                body += bytes(event.data)
            messages.append((request.method, request.target, list(request.headers), body))
            connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
            connection.send(h11.EndOfMessage())
            connection.start_next_cycle()
            data = connection.trailing_data[0]
    except (h11.ProtocolError, ValueError):
        return messages


HOST = b"host: x\r\n"
SEEDS = [
    b"GET /a?b HTTP/1.1\r\n" + HOST + b"accept: */*\r\n\r\n",
    b"POST /b HTTP/1.1\r\n" + HOST + b"content-length: 5\r\n\r\nhello",
    b"POST /c HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nt: u\r\n\r\n",
    b"HEAD /d HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n",
]
PIECES = st.one_of(
    st.sampled_from(
        [
            b"\r\n",
            b"\n",
            b"\r",
            b" ",
            b"\t",
            b":",
            b",",
            b";",
            b"\0",
            b"\x7f",
            b"\x80",
            b"\x0b",
            b"0",
            b"-",
            b"HTTP/1.1",
            b"HTTP/1.0",
            b"HTTP/2.0",
            b"CONNECT",
            b"get",
            HOST,
            b"\r\n\r\n",
            b"0\r\n\r\n",
            b"content-length: 5\r\n",
            b"content-length: 6\r\n",
            b"Content-Length : 5\r\n",
            b"content-length: +5\r\n",
            b"transfer-encoding: chunked\r\n",
            b"Transfer-Encoding: Chunked\r\n",
            b"transfer-encoding: gzip\r\n",
            b"transfer-encoding: gzip, chunked\r\n",
            b" folded\r\n",
            b"connection: close\r\n",
            b"expect: x\r\n",
            b"expect: 100-continue\r\n",
            b"x-empty:\r\n",
            b"5\r\nhello\r\n",
            b"5 \r\nhello\r\n",
            b"005\r\nhello\r\n",
            b"5\nhello\n",
            b"0x5\r\nhello\r\n",
            b"-5\r\nhello\r\n",
            b'5;a="\r\n"\r\nhello\r\n',
            b"content-length: 5, 5\r\n",
            b"content-length:\x0b5\r\n",
            b"content-length: 0\r\n",
            b"content_length: 5\r\n",
            b"transfer-encoding:\x0bchunked\r\n",
            b"transfer-encoding: identity\r\n",
            b"transfer-encoding: chunked, chunked\r\n",
            b"transfer-encoding: chunked;q=1\r\n",
            b"trailer: content-length\r\n",
            b"ffffffffffffffffff\r\n",
            b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
        ]
    ),
    st.binary(max_size=3),
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, list[float]]:
    """Requests with mutations, and positions to split them at."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=3))))
    for piece in draw(st.lists(PIECES, max_size=4)):
        at = draw(st.integers(0, len(data)))
        data[at : draw(st.integers(at, min(len(data), at + 6)))] = piece
    return bytes(data), draw(st.lists(st.floats(0, 1), max_size=4))


def normalized(messages: list[Message]) -> Iterator[Message]:
    """Lower the case of the transfer coding, as h11 does; drop the mark of an empty query."""
    for method, target, headers, body in messages:
        coded = [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in headers]
        yield method, target.removesuffix(b"?"), coded, body


@settings(max_examples=examples(300), deadline=None)
@given(conversations())
@example((SEEDS[0] + SEEDS[1] + SEEDS[2] + SEEDS[0], [0.3, 0.6]))
@example((SEEDS[2].replace(b"hello\r\n0", b"hello\n0"), []))
@example((SEEDS[2].replace(b"5;x=y", b"5;x=y\n"), []))
@example((SEEDS[1].replace(b"content", b"transfer-encoding: chunked\r\ncontent"), []))
@example((SEEDS[0].replace(b"accept", b"x:y\r\n folded: 1\r\naccept"), []))
@example((b"\r\n" + SEEDS[0] + b"\r\n" + SEEDS[3], [0.01, 0.02, 0.03, 0.04]))
@example((b"\r\n\r\n" + SEEDS[3], [0.1]))
def test_request_is_rejected_or_parsed_as_by_h11(conversation: tuple[bytes, list[float]]) -> None:
    data, cuts = conversation
    places = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    parsed = list(normalized(read_here([data[start:end] for start, end in pairwise(places)])))
    assert parsed == list(normalized(read_by_h11(data)))[: len(parsed)]


def test_valid_requests_are_parsed_as_by_h11() -> None:
    data = b"".join((SEEDS[0], SEEDS[1], SEEDS[2], SEEDS[4], SEEDS[3]))
    parsed = list(normalized(read_here([data])))
    assert len(parsed) == 5 and parsed == list(normalized(read_by_h11(data)))


SERVERS = ["node", pytest.param("go", marks=pytest.mark.slow)]
HIDDEN = {b"host", b"connection", b"content-length", b"transfer-encoding", b"trailer"}
"""Fields that net/http reads itself and does not show."""


@pytest.fixture(scope="module", params=SERVERS)
def read_by_both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReadByBoth]:
    """A function that parses requests by this server, and by that of Node.js or Go."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    command = [program, str(PARSER / "parser.js")]
    if request.param == "go":
        command = [str(tmp_path_factory.mktemp("parser") / "parser")]
        environ = {**os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"}
        subprocess.run([program, "build", "-o", *command, "."], cwd=PARSER, env=environ, check=True)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        write, read = process.stdin, process.stdout

        def parse(data: bytes) -> tuple[list[Message], list[Message]]:
            write.write(len(data).to_bytes(4) + data)
            write.flush()
            messages = [
                (
                    method.encode("latin-1"),
                    target.encode("latin-1"),
                    [
                        (name.lower().encode("latin-1"), value.encode("latin-1"))
                        for name, value in zip(fields[::2], fields[1::2], strict=True)
                    ],
                    body.encode("latin-1"),
                )
                for method, target, fields, body in json.loads(read.readline())
            ]
            return shown(read_here([data]), request.param), shown(messages, request.param)

        yield parse
        write.close()


def shown(messages: list[Message], server: str) -> list[Message]:
    """Return what a server shows of messages: net/http shows neither some fields nor their order."""
    if server == "node":
        return list(normalized(messages))
    return [
        (method, target, sorted(field for field in fields if field[0] not in HIDDEN), body)
        for method, target, fields, body in normalized(messages)
    ]


@settings(max_examples=examples(300), deadline=None)
@given(conversation=conversations())
@example(conversation=(SEEDS[0] + SEEDS[1] + SEEDS[2] + SEEDS[0], []))
@example(conversation=(SEEDS[0].replace(b"accept", b"expect: x\r\naccept") + SEEDS[0], []))
def test_request_has_the_boundaries_that_other_servers_find(
    read_by_both: ReadByBoth, conversation: tuple[bytes, list[float]]
) -> None:
    parsed, other = read_by_both(conversation[0])
    both = min(len(parsed), len(other))
    assert parsed[:both] == other[:both]


def test_valid_requests_are_parsed_as_by_other_servers(read_by_both: ReadByBoth) -> None:
    parsed, other = read_by_both(b"".join(SEEDS[:4]))
    assert len(parsed) == 4 and parsed == other
