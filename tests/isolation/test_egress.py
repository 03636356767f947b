"""Outgoing requests of guests: only to origins in `egress`, one well-formed request at a time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from engine.grant import Grant
from engine.manifest.egress import Egress
from engine.quota import Quota, Quotas
from engine.wasm.execution.buffers import OutputBuffer
from engine.wasm.execution.run_state import RunState
from engine.wasm.outbound import http
from engine.wasm.outbound.http import OutboundHttp, OutboundPolicy
from engine.wasm.outbound.messages import (
    ErrorCode,
    FutureResponse,
    IncomingResponse,
    Items,
    OutgoingRequest,
    RequestRefused,
)
from tests.conformance.guest import Guest
from tests.conformance.host import Host
from tests.engine.exchanges import guest_request

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """A server that stores the bytes of each connection and responds to each head with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.received: list[bytearray] = []
        self.port = 0
        self.tasks: list[asyncio.Task[None]] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.append(asyncio.current_task())  # type: ignore[arg-type]
        self.writers.append(writer)
        got = bytearray()
        self.received.append(got)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                got += data
                if b"\r\n\r\n" in data:
                    writer.write(self.answer)
        writer.close()


@contextlib.asynccontextmanager
async def peer(answer: bytes = OK) -> AsyncIterator[Peer]:
    server_peer = Peer(answer)
    server = await asyncio.start_server(server_peer.serve, "127.0.0.1", 0)
    server_peer.port = server.sockets[0].getsockname()[1]
    try:
        yield server_peer
    finally:
        server.close()
        for writer in server_peer.writers:
            writer.transport.abort()
        await asyncio.gather(*server_peer.tasks)


class Caller:
    """A run that sends requests."""

    def __init__(self, outgoing: OutboundHttp, *egress: str, owner: str = "shop/api") -> None:
        self.run = RunState(
            guest_request(),
            b"",
            lambda *call: None,
            None,
            has_body=False,
            call_door=lambda *call: None,
            wake=lambda: None,
        )
        self.outgoing = outgoing
        self.leave = OutboundPolicy(owner, Egress.parse(egress))

    async def call(
        self,
        authority: str,
        path: str = "/",
        body: bytes | None = None,
        *fields: tuple[bytes, bytes],
        method: str = "GET",
    ) -> IncomingResponse | ErrorCode:
        """Send a request; return the response or the error code. Raises `RequestRefused`."""
        run, content = self.run, None
        if body is not None:
            content = OutputBuffer()
            content.put(body)
            content.finished = True
        request = OutgoingRequest(
            method=method, scheme="http", authority=authority, path=path, headers=list(fields), body=content
        )
        future, done = FutureResponse(), asyncio.Event()
        run.wake = done.set
        self.outgoing.fetch(self.leave, run, request, future)
        async with asyncio.timeout(60):
            while future.result is None:
                while run.actions:
                    run.actions.popleft()()
                done.clear()
                await done.wait()
        return future.result

    async def refused(self, authority: str, **fields: str) -> str:
        """Return the error code of a request that fails at once."""
        with pytest.raises(RequestRefused) as exc_info:
            await self.call(authority, **fields)  # type: ignore[arg-type]
        return exc_info.value.code


def succeeded(result: IncomingResponse | ErrorCode) -> bool:
    return isinstance(result, IncomingResponse)


def check(test: Callable[[OutboundHttp], Awaitable[None]], resolve: Any = None) -> None:
    async def main() -> None:
        outgoing = OutboundHttp(resolve) if resolve is not None else OutboundHttp()
        try:
            await test(outgoing)
        finally:
            await outgoing.aclose()

    asyncio.run(main())


def test_redirect_is_returned_to_the_guest() -> None:
    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as secret:
            location = f"http://127.0.0.1:{secret.port}/".encode()
            answer = b"HTTP/1.1 302 Found\r\nlocation: " + location + b"\r\ncontent-length: 0\r\n\r\n"
            async with peer(answer) as front:
                caller = Caller(outgoing, f"http://127.0.0.1:{front.port}")
                response = await caller.call(f"127.0.0.1:{front.port}")
                assert isinstance(response, IncomingResponse) and response.status == 302
                assert (b"location", location) in response.headers
                assert await caller.refused(f"127.0.0.1:{secret.port}") == "HTTP-request-denied"
            assert secret.received == []

    check(test)


def test_calls_beyond_the_quota_of_the_project_fail() -> None:
    quotas = Quotas()
    quotas.set("shop", Quota(egress=2))

    async def main() -> None:
        outgoing = OutboundHttp(quotas=quotas)
        async with peer() as server:
            caller = Caller(outgoing, f"http://127.0.0.1:{server.port}")
            caller.leave = replace(caller.leave, project="shop")
            calls = 0
            with pytest.raises(RequestRefused, match=r"^connection-limit-reached$"):
                while calls < 1000:  # A slow machine may not reach the rate.
                    assert succeeded(await caller.call(f"127.0.0.1:{server.port}"))
                    calls += 1
            assert calls >= 2
            (_, notice, grant), *_ = caller.run.notices
            assert grant == Grant("quota", "svc quota set shop --egress N")
            assert "its quota of 2 calls to other servers a second" in notice
            assert "svc quota set shop --egress N" in notice
            caller.leave = replace(caller.leave, project="other")
            assert succeeded(await caller.call(f"127.0.0.1:{server.port}"))
        await outgoing.aclose()

    asyncio.run(main())


def test_unused_pools_are_closed_with_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 1.0)

    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as server:
            origin = f"127.0.0.1:{server.port}"
            for version in range(3):  # Each deployment may have another policy.
                caller = Caller(outgoing, f"http://{origin}", f"https://{version}.example")
                assert succeeded(await caller.call(origin))
            assert len(outgoing._pools) == 3
            async with asyncio.timeout(60):
                while outgoing._pools:  # noqa: ASYNC110 - a timer closes them
                    await asyncio.sleep(0.01)
            assert succeeded(await caller.call(origin))

    check(test)


def test_name_resolving_to_private_address_is_denied_with_hint() -> None:
    async def inside(_host: str) -> list[str]:
        return ["127.0.0.1"]

    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as server:
            origin = f"http://a.example:{server.port}"
            caller = Caller(outgoing, origin)
            denied = ("destination-IP-prohibited", None)
            assert await caller.call(f"a.example:{server.port}") == denied
            await caller.call(f"a.example:{server.port}")
            [(level, text, grant)] = caller.run.notices
            assert grant is not None and grant.edit["origin"] == f"http://127.0.0.1:{server.port}"
            assert level == "WARN" and "127.0.0.1" in text
            assert f'egress = ["{origin}", "http://127.0.0.1:{server.port}"]' in text
            assert server.received == []

    check(test, inside)


def test_connections_are_not_shared_between_resources() -> None:
    """Only the first resource lists the address; the second must not reuse its open connection."""

    async def inside(_host: str) -> list[str]:
        return ["127.0.0.1"]

    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as server:
            origin, address = f"http://a.example:{server.port}", f"http://127.0.0.1:{server.port}"
            assert succeeded(await Caller(outgoing, origin, address).call(f"a.example:{server.port}"))
            assert not succeeded(await Caller(outgoing, origin).call(f"a.example:{server.port}"))
            assert len(server.received) == 1

    check(test, inside)


def test_exhausted_connections_do_not_block_other_resources() -> None:
    """A resource of another project that may call the same server has connections of its own."""

    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as server:
            address = f"http://127.0.0.1:{server.port}"
            opened = []
            for owner in ("shop/api", "blog/api"):
                caller = Caller(outgoing, address, owner=owner)
                assert succeeded(await caller.call(f"127.0.0.1:{server.port}"))
                opened.append(len(server.received))
            assert opened == [1, 2]

    check(test)


@pytest.mark.parametrize(
    ("path", "body", "fields", "line"),
    [
        ("/a?b", None, [], b"GET /a?b HTTP/1.1\r\n"),
        ("?b", None, [], b"GET /?b HTTP/1.1\r\n"),
        ("/", b"hello", [(b"content-length", b"5")], b"content-length: 5\r\n"),
        ("/", b"hello", [], b"transfer-encoding: chunked\r\n"),
    ],
)
def test_exactly_one_request_is_sent(path: str, body: bytes | None, fields: Items, line: bytes) -> None:
    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as server:
            caller = Caller(outgoing, f"http://127.0.0.1:{server.port}")
            assert succeeded(await caller.call(f"127.0.0.1:{server.port}", path, body, *fields))
            sent = bytes(server.received[0]).lower()
            assert line.lower() in sent and sent.count(b"http/1.1") == 1
            assert sent.count(b"host: ") == 1 and b"host: 127.0.0.1:%d\r\n" % server.port in sent

    check(test)


@pytest.mark.parametrize("length", [b"3", b"9", b"90"])
def test_body_length_mismatch_never_becomes_second_request(length: bytes) -> None:
    smuggled = b"abcGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"

    async def test(outgoing: OutboundHttp) -> None:
        async with peer(b"") as server:
            caller = Caller(outgoing, f"http://127.0.0.1:{server.port}")
            body = {b"3": smuggled, b"9": b"abc", b"90": None}[length]
            field = b"content-length", length
            assert not succeeded(await caller.call(f"127.0.0.1:{server.port}", "/", body, field))
            assert all(b"smuggled" not in got for got in server.received)

    check(test)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("egress"))
    yield host
    host.close()


PATHS = ["http://evil.example/", "evil", "//\r\n", "/ HTTP/1.1\r\nx: y", "/\0", "/ü", "@x"]
AUTHORITIES = ["a@b", "a/b", "a b", "a\r\nx: y", "a?b", "a#b", "a\\b", "ü", ""]


@pytest.mark.parametrize(("part", "values"), [("path-with-query", PATHS), ("authority", AUTHORITIES)])
def test_target_cannot_inject_origin_user_or_line(host: Host, part: str, values: list[str]) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    steps = [guest.call(f"outgoing-request.set-{part}", request, value) for value in values]
    answer = host.run(guest)
    assert [answer[step] for step in steps] == [("err", None)] * len(values)


UNSAFE = [
    ("x", b"a\r\nb: c"),
    ("x", b"a\nb"),
    ("x", b"a\0"),
    ("x\r\ny", b"z"),
    ("x y", b"z"),
    ("", b"z"),
    ("content-length", b"5, 6"),
    ("content-length", b"+5"),
    ("content-length", b"9" * 30),
    ("Host", b"x"),
    ("transfer-encoding", b"chunked"),
    ("Connection", b"close"),
    ("upgrade", b"h2c"),
]


def test_unsafe_header_fields_are_rejected(host: Host) -> None:
    guest = Guest()
    fields = guest.call("fields.constructor")
    steps = [guest.call("fields.from-list", [field]) for field in UNSAFE]
    steps += [guest.call("fields.append", fields, *field) for field in UNSAFE]
    steps += [guest.call("fields.set", fields, name, [value]) for name, value in UNSAFE]
    left = guest.call("fields.entries", fields)
    answer = host.run(guest)
    assert {answer[step][0] for step in steps} == {"err"} and answer[left] == []


@pytest.mark.parametrize("method", ["CONNECT", "connect", "Connect"])
def test_connect_tunnels_are_rejected(method: str) -> None:
    async def test(outgoing: OutboundHttp) -> None:
        caller = Caller(outgoing, "http://127.0.0.1:9")
        assert await caller.refused("127.0.0.1:9", method=method) == "HTTP-request-method-invalid"

    check(test)


def test_repeated_denials_are_logged_a_limited_number_of_times() -> None:
    async def test(outgoing: OutboundHttp) -> None:
        caller = Caller(outgoing)
        for number in range(500):
            await caller.refused(f"host-{number % 100}.example")
        assert len(caller.run.notices) == 20

    check(test)
