"""Malformed HTTP never causes a crash, a traceback, a hang, or a wrong response to the next client."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.gateway.serving import Site, echo, with_site
from tests.engine.gateway.test_gateway import PUBLIC_API
from tests.support.examples import examples

HOST = b"host: api--shop.localhost\r\n"
HELLO = b"GET /next HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATIENCE = 60.0


async def throw(site: Site, data: bytes) -> bytes:
    """Send bytes and the end of the sending side; return the bytes received until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            writer.write_eof()
            return await asyncio.wait_for(reader.read(), PATIENCE)
        return b""
    finally:
        writer.transport.abort()


def survives(
    inputs: Iterable[bytes], check: Callable[[bytes, bytes], None] = lambda data, answer: None
) -> None:
    """Send each input to a server; assert that it answers the next client and logs no error."""
    faults: list[dict[str, Any]] = []

    async def test(site: Site) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        for data in inputs:
            check(data, await throw(site, data))
            after = await site.raw(HELLO)
            assert after.startswith(b"HTTP/1.1 200") and after.endswith(b"GET api--shop.localhost /next")

    with_site([PUBLIC_API], {"api": echo()}, test)
    assert faults == []


def refused(data: bytes, answer: bytes) -> None:
    """Assert that the response is a single, complete client error."""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")), (data, answer)
    assert answer.count(b"HTTP/1.1 ") <= 1


BAD_HEADS = [
    b"\r\n\r\n\r\n",
    b"\0" * 100,
    b"\xff" * 5000,
    b"GET",
    b"GET /",
    b"GET / HTTP/1.1",
    b"GET / HTTP/1.1\r\n",
    b"GET / HTTP/9.9\r\n",
    b"GET / HTTP/1.1 \r\n",
    b"GET  / HTTP/1.1\r\n",
    b"GET /\x7f HTTP/1.1\r\n",
    b"GET /\xc3\xbc HTTP/1.1\r\n",
    b"G\xc3\xa9T / HTTP/1.1\r\n",
    b"GET / HTTP/1.1\r\nhost : x\r\n",
    b"GET / HTTP/1.1\r\n: x\r\n",
    b"GET / HTTP/1.1\r\n x: y\r\n",
    b"GET / HTTP/1.1\r\nx\0: y\r\n",
    b"GET / HTTP/1.1\r\nx: y\rz: 1\r\n",
    b"GET / HTTP/1.1\r\nx: a\0b\r\n",
    b"GET / HTTP/1.1\r\nx\r\n",
]
SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
BAD_BODIES = [
    b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    b"content-length: 5, 5\r\n\r\nhello",
    b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"content-length: -5\r\n\r\nhello",
    b"content-length: +5\r\n\r\nhello",
    b"content-length: 0x5\r\n\r\nhello",
    b"content-length: 5, 6\r\n\r\nhello",
    b"content-length: \xd9\xa5\r\n\r\nhello",
    b"content-length: 99999999999999999999999999\r\n\r\nhello",
    b"transfer-encoding: gzip\r\n\r\nhello",
    b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
]
BROKEN_CHUNKS = [
    b"x\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhelloworld\r\n0\r\n\r\n",
    b"5;\0\r\nhello\r\n",
    b"fffffffffffffffffffff\r\nhello",
    b"5\nhello\n0\n\n",
    b"5\r\nhel",
    b"0\r\nbad trailer\r\n\r\n",
    b" 5\r\nhello",
]


def test_malformed_heads_are_rejected() -> None:
    survives([head + (b"" if head.endswith(b"\r\n\r\n") else b"\r\n") for head in BAD_HEADS], refused)


def test_conflicting_lengths_are_rejected_without_second_request() -> None:
    survives([b"POST / HTTP/1.1\r\n" + HOST + body + SMUGGLED for body in BAD_BODIES], refused)


def test_content_length_with_chunks_sends_no_second_request() -> None:
    head = b"POST / HTTP/1.1\r\n" + HOST + b"content-length: 60\r\ntransfer-encoding: chunked\r\n\r\n"
    survives([head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)], refused)
    survives([b"POST / HTTP/1.0\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"], refused)


def test_targets_of_unknown_form_are_rejected() -> None:
    targets = [
        b"GET next",
        b"GET *",
        b"GET ftp://api--shop.localhost/",
        b"GET http:///next",
        b"CONNECT api--shop.localhost:80",
        b"CONNECT /next",
    ]
    survives([target + b" HTTP/1.1\r\n" + HOST + b"\r\n" for target in targets], refused)


def test_authority_of_absolute_target_selects_the_resource() -> None:
    async def test(site: Site) -> list[bytes]:
        return [
            await site.raw(b"GET " + target + b" HTTP/1.1\r\n" + host + b"connection: close\r\n\r\n")
            for target, host in (
                (b"http://api--shop.localhost/next?a", b"host: other.localhost\r\n"),
                (b"HTTP://api--shop.localhost?a", HOST),
                (b"http://other.localhost/next", HOST),
            )
        ]

    first, second, third = with_site([PUBLIC_API], {"api": echo()}, test)
    assert first.endswith(b"GET api--shop.localhost /next?a")
    assert second.endswith(b"GET api--shop.localhost /?a")
    assert third.startswith(b"HTTP/1.1 404")


def test_upgrade_to_h2c_and_lower_case_methods_have_no_effect() -> None:
    upgrade = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n"

    async def test(site: Site) -> list[bytes]:
        close = b"connection: close\r\n"
        return [
            await site.raw(request + HOST + close + end)
            for request, end in ((b"GET /a HTTP/1.1\r\n", upgrade), (b"get /a HTTP/1.1\r\n", b"\r\n"))
        ]

    upgraded, lower = with_site([PUBLIC_API], {"api": echo()}, test)
    assert upgraded.startswith(b"HTTP/1.1 200") and upgraded.endswith(b"GET api--shop.localhost /a")
    assert lower.endswith(b"get api--shop.localhost /a")


def test_malformed_chunks_close_connection() -> None:
    head = b"POST / HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n"

    def no_second(data: bytes, answer: bytes) -> None:
        assert b"/smuggled" not in answer, (data, answer)

    survives([head + chunks + SMUGGLED for chunks in BROKEN_CHUNKS], no_second)


def test_invalid_upgrades_do_not_stop_server() -> None:
    upgrades = [
        b"upgrade: h2c\r\n",
        b"upgrade: h2c\r\nhttp2-settings: %%%\r\n",
        b"upgrade: h2c\r\nhttp2-settings: AAA\r\n",
        b"upgrade: websocket\r\n",
        b"upgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 99\r\n",
        b"upgrade: \xff\xff\r\n",
    ]
    survives(
        [b"GET / HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\n" + each + b"\r\n" for each in upgrades]
    )


def client() -> h2.connection.H2Connection:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    return connection


def fields(*pairs: tuple[bytes, bytes]) -> bytes:
    """Return an HTTP/2 preface and a request with these unchecked fields."""
    connection = client()
    start = connection.data_to_send()
    frame = HeadersFrame(1, flags=["END_HEADERS", "END_STREAM"])
    frame.data = connection.encoder.encode(pairs)
    return start + frame.serialize()


def frames(*sent: Frame) -> bytes:
    return client().data_to_send() + b"".join(frame.serialize() for frame in sent)


USUAL = (
    (b":method", b"GET"),
    (b":path", b"/"),
    (b":scheme", b"http"),
    (b":authority", b"api--shop.localhost"),
)
BAD_FIELDS = [
    (),
    USUAL[:1],
    USUAL[1:],
    (USUAL[0], *USUAL[2:]),
    (*USUAL, USUAL[0]),
    ((b":method", b"CONNECT"), (b":authority", b"x")),
    ((b":method", b"CONNECT"), (b":protocol", b"websocket"), *USUAL[1:]),
    ((b":method", b"CONNECT"), (b":protocol", b"\xff"), *USUAL[1:]),
    *(((b":method", value), *USUAL[1:]) for value in (b"", b"\xff", b"G T", b"GET\r\nx: y")),
    *(
        (USUAL[0], (b":path", value), *USUAL[2:])
        for value in (b"", b"\xff", b"x", b"/ HTTP/1.1\r\nx: y", b"/\0")
    ),
    *(
        (*USUAL, pair)
        for pair in ((b"X", b"y"), (b"x", b"a\r\nb: c"), (b"x y", b"z"), (b"", b"z"), (b"\xff", b"z"))
    ),
    *(
        (*USUAL, pair)
        for pair in ((b"connection", b"close"), (b"transfer-encoding", b"chunked"), (b"te", b"gzip"))
    ),
    *((*USUAL, pair) for pair in ((b"content-length", b"9"), (b"content-length", b"x"), (b":late", b"z"))),
    (*USUAL, *[(b"x-%d" % i, b"y" * 500) for i in range(200)]),
]


def bad_frames() -> list[bytes]:
    data, headers = DataFrame(1, b"data"), HeadersFrame(1, b"\xff\xff\xff", flags=["END_HEADERS"])
    window = WindowUpdateFrame(0)
    window.window_increment = 2**31 - 1
    ping = PingFrame(0, b"12345678")
    loop = PriorityFrame(3, depends_on=3)
    return [
        PREFACE,
        PREFACE[:10],
        PREFACE + b"\0" * 50,
        PREFACE + b"\xff" * 50,
        PREFACE + HELLO,
        frames(data),
        frames(headers),
        frames(ContinuationFrame(1, b"x")),
        frames(window, window),
        frames(RstStreamFrame(1)),
        frames(RstStreamFrame(2**31 - 1)),
        frames(GoAwayFrame(0)),
        frames(loop),
        frames(*[PriorityFrame(2 * n + 1, depends_on=0) for n in range(1500)]),
        frames(*[ping] * 3000),
        frames(*[SettingsFrame(0)] * 3000),
        frames(SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 2**31})),
        frames(HeadersFrame(1, b""), *[ContinuationFrame(1, b"") for _ in range(200)]),
        frames(HeadersFrame(2, b"\x82", flags=["END_HEADERS"])),
        client().data_to_send() + b"\xff\xff\xff\0\0\0\0\0\1",
    ]


def test_invalid_http2_fields_end_stream_or_connection() -> None:
    def no_injection(data: bytes, answer: bytes) -> None:
        connection = client()
        connection.send_headers(1, USUAL)
        with contextlib.suppress(h2.exceptions.ProtocolError):
            for event in connection.receive_data(answer):
                if isinstance(event, h2.events.ResponseReceived):
                    assert dict(event.headers)[b":status"] in (b"400", b"404", b"431"), data

    survives([fields(*pairs) for pairs in BAD_FIELDS], no_injection)


def test_http2_path_of_another_form_is_not_found() -> None:
    async def test(site: Site) -> None:
        for path in (b"x", b"http://api--shop.localhost/"):
            await site.raw(fields(USUAL[0], (b":path", path), *USUAL[2:]) + frames(GoAwayFrame(0))[24:])
        assert [span.status for span in site.spans] == [404, 404]

    with_site([PUBLIC_API], {"api": echo()}, test)


def test_invalid_http2_frames_close_connection() -> None:
    survives(bad_frames())


def test_mass_stream_resets_leave_no_state() -> None:
    connection = client()
    for number in range(1, 181, 2):
        connection.send_headers(number, USUAL, end_stream=True)
        connection.reset_stream(number)
    survives([connection.data_to_send()] * 5)


def test_http2_upgrade_followed_by_garbage_closes_connection() -> None:
    upgrade = b"connection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n"
    survives([b"GET / HTTP/1.1\r\n" + HOST + upgrade + rubbish for rubbish in (b"\r\n", b"x" * 100)])


GOOD = [
    b"POST /a HTTP/1.1\r\n" + HOST + b"content-length: 5\r\n\r\nhello",
    b"POST /b HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET /c?d=%20 HTTP/1.1\r\n"
    + HOST
    + b"connection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n",
    fields(*USUAL),
]


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A valid request with some bytes replaced, removed or repeated."""
    data = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        until = min(len(data), at + draw(st.integers(0, 8)))
        piece = draw(st.one_of(st.binary(max_size=6), st.just(bytes(data[at:until]) * 2), st.just(b"\r\n")))
        data[at:until] = piece
    return bytes(data)


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(mutations(), min_size=20, max_size=20))
def test_mutated_requests_do_not_stop_server(inputs: list[bytes]) -> None:
    survives(inputs)


pytestmark = pytest.mark.timeout(300)
