import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.http.asgi import asgi_handler
from engine.http.exchange import Exchange, Handler
from engine.http.messages import MalformedRequest, RequestHead, ResponseEncoder
from engine.http.server import serve
from engine.http.sockets import bind
from tests.engine.uploading import read_body

HOST = b"host: x\r\n"
App = Callable[[Any, Any, Any], Awaitable[None]]


def exchange(app: App, *sent: bytes, end: bool = True) -> bytes:
    """Serve an application and send it bytes; return all received bytes."""
    return exchange_with(asgi_handler(app), *sent, end=end)


def exchange_with(handler: Handler, *sent: bytes, end: bool = True) -> bytes:
    """Serve with a handler likewise."""

    async def main() -> bytes:
        sockets = bind("localhost", 0)
        port, stop = sockets[0].getsockname()[1], asyncio.Event()
        server = asyncio.create_task(serve(handler, sockets, stop=stop, grace=0.2))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        received = b""
        try:
            for number, data in enumerate(sent):
                writer.write(data)
                if end and number == len(sent) - 1:
                    writer.write_eof()
                else:
                    received += await asyncio.wait_for(reader.read(65536), 60)
            return received + await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()
            stop.set()
            await server

    return asyncio.run(main())


def start(*fields: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(fields)}


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def answering(*messages: dict[str, Any]) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Respond with method, target and body."""
    data = await read_body(receive)
    text = b"%b %b?%b %b" % (scope["method"].encode(), scope["raw_path"], scope["query_string"], data)
    await send(start((b"content-length", b"%d" % len(text))))
    await send(body(text))


def understood_by_h11(data: bytes) -> tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]:
    """Return method, target, fields and what follows the head, as h11 reads them; it may find no body."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    assert isinstance(connection.next_event(), h11.EndOfMessage)
    return request.method, request.target, list(request.headers), connection.trailing_data[0]


PIECES = st.one_of(
    st.sampled_from(
        [
            b"\r\n",
            b"\n",
            b"\r",
            b" ",
            b"\t",
            b":",
            b"\0",
            b"\x80",
            b"\x7f",
            b"HTTP/1.1",
            b"HTTP/1.0",
            b"/",
            b"GET",
            b"get",
            b"POST",
            b"CONNECT",
            HOST,
            b"connection: close\r\n",
            b"connection: upgrade\r\n",
            b"content-length: 0\r\n",
            b"Content-Length: 5\r\n",
            b"transfer-encoding: chunked\r\n",
            b"expect: 100-continue\r\n",
            b"upgrade: h2c\r\n",
            b"x-empty:\r\n",
            b"X-Two: a \t b \r\n",
        ]
    ),
    st.binary(max_size=3),
)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """A valid or nearly valid request head, followed by more bytes."""
    data = bytearray(b"GET /a?b HTTP/1.1\r\n" + HOST + b"accept: */*\r\n\r\n")
    for piece in draw(st.lists(PIECES, max_size=4)):
        at = draw(st.integers(0, len(data)))
        data[at : draw(st.integers(at, min(len(data), at + 4)))] = piece
    return bytes(data)


@given(heads())
def test_parsed_head_matches_h11(data: bytes) -> None:
    end = data.find(b"\r\n\r\n") + 4
    try:
        head = RequestHead(data[:end])
    except MalformedRequest:
        return
    if head.length == 0:
        parsed = (head.method.encode(), head.target, head.headers, data[end:])
        assert parsed == understood_by_h11(data)


def test_usual_head_is_parsed() -> None:
    head = RequestHead(b"GET /a?b HTTP/1.1\r\nHost: x\r\nAccept:  */* \r\nCookie: a=b; c=d\r\n\r\n")
    assert (head.method, head.target, head.keep_alive, head.length) == ("GET", b"/a?b", True, 0)
    assert head.headers == [(b"host", b"x"), (b"accept", b"*/*"), (b"cookie", b"a=b; c=d")]


@pytest.mark.parametrize(
    "rest",
    [
        b"\r\n",
        HOST + HOST + b"\r\n",
        HOST + b"content-length: 5, 5\r\n\r\n",
        HOST + b"transfer-encoding: gzip\r\n\r\n",
        HOST + b"x: y\0\r\n\r\n",
        HOST + b" folded\r\n\r\n",
        HOST + b"x : y\r\n\r\n",
        HOST + b"x: y\n\r\n",
        HOST,
    ],
)
def test_malformed_head_raises(rest: bytes) -> None:
    with pytest.raises(MalformedRequest):
        RequestHead(b"GET / HTTP/1.1\r\n" + rest)


@pytest.mark.parametrize(("fields", "status"), [(255, b"200"), (256, b"431")])
def test_head_with_many_fields_returns_431(fields: int, status: bytes) -> None:
    request = b"GET / HTTP/1.1\r\n" + HOST + b"x: y\r\n" * fields + b"\r\n"
    assert exchange(answering(start(), body(b"")), request).startswith(b"HTTP/1.1 " + status)


def test_requests_with_and_without_bodies_share_connection() -> None:
    plain = b"GET /%d?q HTTP/1.1\r\n" + HOST + b"\r\n"
    upload = b"POST /%d HTTP/1.1\r\n" + HOST + b"content-length: 4\r\n\r\nbody"
    pipelined = b"".join((plain if number % 3 else upload) % number for number in range(9))
    answer = exchange(echo, pipelined + plain % 9)
    assert answer.count(b"HTTP/1.1 200 ") == 10
    expected = [b"GET /%d?q " % n if n % 3 else b"POST /%d? body" % n for n in range(9)]
    at = [answer.index(text) for text in expected]
    assert at == sorted(at)


def test_many_requests_at_once_that_never_wait_are_answered_in_order() -> None:
    async def handler(exchange: Exchange) -> None:
        text = exchange.request.path.encode()
        await exchange.send_head(200, [(b"content-length", b"%d" % len(text))])
        await exchange.send_body(text, end=True)

    requests = [b"GET /%d HTTP/1.1\r\n" % number + HOST + b"\r\n" for number in range(2000)]
    answer = exchange_with(handler, b"".join(requests))
    assert re.findall(rb"\r\n\r\n/(\d+)", answer) == [b"%d" % number for number in range(2000)]


def test_body_of_unknown_length_is_chunked() -> None:
    app = answering(start(), body(b"hello", more=True), body(b"", more=True), body(b"!" * 16))
    answer = exchange(app, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert b"transfer-encoding: chunked\r\n" in answer
    assert answer.endswith(b"\r\n\r\n5\r\nhello\r\n10\r\n" + b"!" * 16 + b"\r\n0\r\n\r\n")


def test_response_with_a_date_has_no_second_one() -> None:
    app = answering(start((b"date", b"Fri, 27 Nov 2026 00:00:00 GMT")), body(b""))
    answer = exchange(app, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert answer.count(b"date:") == 1 and b"date: Fri, 27 Nov 2026 00:00:00 GMT\r\n" in answer


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_response_that_excludes_body_has_none(method: str, status: int) -> None:
    app = answering(start((b"x", b"y"), status=status), body(b"hello"))
    answer = exchange(app, f"{method} / HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} \r\nx: y\r\ndate: ".encode())
    assert answer.endswith(b"\r\n\r\n") and b"hello" not in answer


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [start((b"x", b"a\r\ninjected: b")), body(b"")],
        [start((b"x: y\r\nz", b"a")), body(b"")],
        [start((b"content-length", b"5"), (b"content-length", b"6")), body(b"hello")],
        [start((b"content-length", b"-1")), body(b"")],
        [start((b"Transfer-Encoding", b"gzip")), body(b"")],
        [start(status=99), body(b"")],
        [body(b"hello")],
    ],
)
def test_invalid_asgi_response_returns_500(messages: list[dict[str, Any]]) -> None:
    answer = exchange(answering(*messages), b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", end=False)
    assert answer.startswith(b"HTTP/1.1 500 \r\ncontent-length: 0\r\n") and b"injected" not in answer
    assert answer.endswith(b"\r\nconnection: close\r\n\r\n")


@pytest.mark.parametrize("length", [b"4", b"6"])
def test_body_length_mismatch_truncates_response(length: bytes) -> None:
    app = answering(start((b"content-length", length)), body(b"hel", more=True), body(b"lo"))
    answer = exchange(app, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", end=False)
    assert answer.endswith(b"\r\n\r\nhel")


def test_failed_response_has_no_last_chunk() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"hello", more=True))
        raise RuntimeError("half")

    answer = exchange(app, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", end=False)
    assert answer.endswith(b"5\r\nhello\r\n")


def test_connection_fields_of_application_are_dropped() -> None:
    fields = [(b"connection", b"upgrade"), (b"transfer-encoding", b"gzip"), (b"keep-alive", b"timeout=1")]
    head = ResponseEncoder("GET").head(200, fields, close=False)
    assert b"upgrade" not in head and b"gzip" not in head and b"timeout" not in head
    assert head.count(b"transfer-encoding: chunked\r\n") == 1


def test_application_receives_disconnect_after_response_or_client_exit() -> None:
    message_types: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert await receive() == {"type": "http.request", "body": b"", "more_body": False}
        if scope["raw_path"] == b"/whole":
            await send(start())
            await send(body(b"hello"))
        message_types.append((await receive())["type"])

    request = b"GET /%b HTTP/1.1\r\n" + HOST + b"\r\n"
    exchange(app, request % b"whole", request % b"left")
    assert message_types == ["http.disconnect"] * 2


def test_next_request_is_answered_while_last_application_runs() -> None:
    waits = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-length", b"5")))
        await send(body(b"hello"))
        if scope["raw_path"] == b"/first":
            await waits.wait()
        else:
            waits.set()

    request = b"GET /%b HTTP/1.1\r\n" + HOST + b"\r\n"
    assert exchange(app, request % b"first", request % b"second").count(b"hello") == 2


def test_slow_client_applies_backpressure() -> None:
    async def main() -> None:
        blocked = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send(start())
            for _ in range(500):
                try:
                    await asyncio.wait_for(send(body(bytes(1 << 16), more=True)), 1)
                except TimeoutError:
                    blocked.set()
                    raise

        sockets = bind("localhost", 0)
        stop = asyncio.Event()
        server = asyncio.create_task(serve(asgi_handler(app), sockets, stop=stop, grace=0.2))
        with socket.create_connection(("127.0.0.1", sockets[0].getsockname()[1])) as client:
            client.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            await asyncio.wait_for(blocked.wait(), 60)
        stop.set()
        await server

    asyncio.run(main())


def test_empty_line_before_a_request_is_ignored() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-length", b"2")))
        await send(body(b"ok"))

    request = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
    last = request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    answer = exchange(app, b"\r\n" + request + b"\r\n" + last)
    assert answer.count(b"HTTP/1.1 200") == 2
    assert exchange(app, b"\r\n\r\n\r\n" + last).startswith(b"HTTP/1.1 400")
    assert exchange(app, b"\n" + last).startswith(b"HTTP/1.1 400")
    assert exchange(app, b"\r" + last).startswith(b"HTTP/1.1 400")


def test_empty_line_in_parts_before_a_request_is_ignored() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-length", b"2")))
        await send(body(b"ok"))

    async def main() -> bytes:
        sockets = bind("localhost", 0)
        stop = asyncio.Event()
        server = asyncio.create_task(serve(asgi_handler(app), sockets, stop=stop, grace=0.2))
        reader, writer = await asyncio.open_connection("127.0.0.1", sockets[0].getsockname()[1])
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (b"\r", b"\n", b"GET / HTTP/1.1\r\n" + HOST, b"connection: close\r\n\r\n"):
            writer.write(part)
            for _ in range(5):
                await asyncio.sleep(0)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        stop.set()
        await server
        return answer

    assert asyncio.run(main()).startswith(b"HTTP/1.1 200")
