"""Exchanges with other servers: responses before the end of the request's body, and reused connections."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from engine.wasm.execution.buffers import BUFFER_BYTES, OutputBuffer
from engine.wasm.outbound import connections
from engine.wasm.outbound.http import OutboundHttp
from engine.wasm.outbound.messages import ErrorCode, FutureResponse, IncomingResponse, OutgoingRequest
from tests.isolation.test_egress import OK, Caller, Peer, check, peer, succeeded

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EMPTY = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
REFUSAL = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig"


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    """Serve on the loopback interface; yield the authority."""
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks[asyncio.current_task()] = writer  # type: ignore[index]
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in tasks.values():
            writer.transport.abort()
        await asyncio.gather(*tasks)


async def chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readuntil(b"\r\n"), 16)
    return (await reader.readexactly(size + 2))[:-2]


class Exchange:
    """A request whose body the test writes, and its response."""

    def __init__(self, outgoing: OutboundHttp, authority: str) -> None:
        caller = Caller(outgoing, f"http://{authority}")
        self.run, self.body, self.future = caller.run, OutputBuffer(), FutureResponse()
        self._woken = asyncio.Event()
        self.run.wake = self._woken.set
        request = OutgoingRequest(
            method="POST", scheme="http", authority=authority, path="/", headers=[], body=self.body
        )
        outgoing.fetch(caller.leave, self.run, request, self.future)

    async def until(self, condition: Callable[[], object]) -> None:
        """Call the queued actions until a condition is true."""
        async with asyncio.timeout(60):
            while True:
                while self.run.actions:
                    self.run.actions.popleft()()
                if condition():
                    return
                self._woken.clear()
                for task in self.run.tasks:
                    task.add_done_callback(lambda _: self._woken.set())
                await self._woken.wait()

    async def response(self) -> IncomingResponse | ErrorCode:
        await self.until(self.future.ready)
        assert self.future.result is not None
        return self.future.result

    async def read(self, size: int) -> bytes:
        """Return bytes of the response's body: `size`, or fewer at its end."""
        response, data = await self.response(), b""
        assert isinstance(response, IncomingResponse)
        while len(data) < size:
            await self.until(response.body.ready)
            data += response.body.take(size - len(data))
            if response.body.exhausted:
                break
        return data

    async def finish(self) -> None:
        """End the body, and wait until it was sent."""
        self.body.finished = True
        self.body.changed()
        await self.until(lambda: not self.run.tasks)


def test_response_and_request_body_are_transferred_at_the_same_time() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        while data := await chunk(reader):
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        await reader.read()

    async def test(outgoing: OutboundHttp) -> None:
        async with serving(echo) as authority:
            exchange = Exchange(outgoing, authority)
            assert succeeded(await exchange.response())
            for data in (b"one", b"two", bytes(BUFFER_BYTES - 1)):
                exchange.body.put(data)
                assert await exchange.read(len(data)) == data
            await exchange.finish()
            assert await exchange.read(1) == b""

    check(test)


def test_request_body_is_sent_after_a_complete_response_and_the_connection_used_again() -> None:
    bodies: list[bytes] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append(b"")  # one for each connection
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(EMPTY)
            while data := await chunk(reader):
                bodies[-1] += data

    async def test(outgoing: OutboundHttp) -> None:
        async with serving(accept) as authority:
            for data in (b"first,", b"second"):
                exchange = Exchange(outgoing, authority)
                response = await exchange.response()
                assert isinstance(response, IncomingResponse) and response.status == 202
                await exchange.until(lambda body=response.body: body.exhausted)
                exchange.body.put(data)
                await exchange.finish()
            assert bodies == [b"first,second"]

    check(test)


def test_refusal_ends_an_upload_that_the_server_does_not_read() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(REFUSAL)
        await writer.wait_closed()

    async def test(outgoing: OutboundHttp) -> None:
        async with serving(refuse) as authority:
            exchange = Exchange(outgoing, authority)
            for _ in range(64):  # more than sockets buffer
                exchange.body.put(bytes(BUFFER_BYTES))
            response = await exchange.response()
            assert isinstance(response, IncomingResponse) and response.status == 413
            assert await exchange.read(4) == b"big"
            await exchange.until(lambda: exchange.body.discarding)
            assert exchange.body.ready() and exchange.body.empty

    check(test)


def test_unread_response_and_unread_body_are_buffered_up_to_a_limit() -> None:
    """Neither the server nor the guest reads."""

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"10000\r\n%b\r\n" % bytes(65536) * 256)
        await writer.wait_closed()

    async def test(outgoing: OutboundHttp) -> None:
        async with serving(flood) as authority:
            exchange = Exchange(outgoing, authority)
            response = await exchange.response()
            assert isinstance(response, IncomingResponse)
            await exchange.until(lambda: response.body.full)
            accepted = 0
            while accepted < 64 << 20:
                accepted += (room := exchange.body.room())
                exchange.body.put(bytes(room))
                try:
                    async with asyncio.timeout(0.1):
                        await exchange.until(exchange.body.ready)
                except TimeoutError:
                    break
            assert accepted < 64 << 20  # What the sockets of the system buffer is below that.
            assert exchange.run.held_bytes < 2 * BUFFER_BYTES

    check(test)


@pytest.mark.parametrize("answered", [False, True])
def test_unfinished_request_body_fails_the_exchange(answered: bool) -> None:
    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answered:
            writer.write(CHUNKED + b"1\r\nx\r\n")
        assert not (await reader.read()).endswith(b"0\r\n\r\n")  # The server can see that it is incomplete.

    async def test(outgoing: OutboundHttp) -> None:
        async with serving(begin) as authority:
            exchange = Exchange(outgoing, authority)
            if answered:
                assert await exchange.read(1) == b"x"
            exchange.body.put(b"half")
            exchange.body.broken = True
            exchange.body.changed()
            await exchange.until(lambda: not exchange.run.tasks)
            result = await exchange.response()
            code = result.body.error if isinstance(result, IncomingResponse) else result
            assert code == ("HTTP-protocol-error", None)
            assert isinstance(result, IncomingResponse) is answered

    check(test)


@pytest.mark.parametrize("answered", [False, True])
def test_canceled_exchange_closes_its_connection(answered: bool) -> None:
    closed = asyncio.Event()

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answered:
            writer.write(CHUNKED)
        await chunk(reader)
        arrived.set()
        await reader.read()
        closed.set()

    arrived = asyncio.Event()

    async def test(outgoing: OutboundHttp) -> None:
        async with serving(begin) as authority, asyncio.timeout(60):
            exchange = Exchange(outgoing, authority)
            exchange.body.put(b"half")
            await exchange.until(lambda: exchange.run.tasks)
            if answered:
                await exchange.response()
            await arrived.wait()
            exchange.run.close()
            await closed.wait()
            assert all(not pool.exchanges for pool in outgoing._pools.values())

    check(test)


def test_exchange_that_ends_after_the_pools_closes_its_connection() -> None:
    released, closed = asyncio.Event(), asyncio.Event()

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na")
        await released.wait()
        writer.write(b"b")
        await reader.read()
        closed.set()

    async def test(outgoing: OutboundHttp) -> None:
        async with serving(half) as authority, asyncio.timeout(60):
            response = await Caller(outgoing, f"http://{authority}").call(authority)
            assert isinstance(response, IncomingResponse)
            await outgoing.aclose()
            released.set()
            await closed.wait()

    check(test)


def test_connection_that_the_server_closed_is_not_used_again() -> None:
    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as server:
            caller = Caller(outgoing, f"http://127.0.0.1:{server.port}")
            for _ in range(2):
                assert succeeded(await caller.call(f"127.0.0.1:{server.port}"))
            assert len(server.received) == 1
            server.writers[0].close()
            await server.writers[0].wait_closed()
            assert succeeded(await caller.call(f"127.0.0.1:{server.port}"))
            assert len(server.received) == 2

    check(test)


def test_second_response_is_not_taken_for_that_of_the_next_request() -> None:
    async def test(outgoing: OutboundHttp) -> None:
        async with peer(OK + OK.replace(b"200", b"201")) as server:
            caller = Caller(outgoing, f"http://127.0.0.1:{server.port}")
            for opened in (1, 2):
                response = await caller.call(f"127.0.0.1:{server.port}")
                assert isinstance(response, IncomingResponse) and response.status == 200
                assert len(server.received) == opened

    check(test)


def test_expired_and_surplus_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_IDLE", 1)

    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as one, peer() as two:
            caller = Caller(outgoing, f"http://127.0.0.1:{one.port}", f"http://127.0.0.1:{two.port}")

            async def opened(server: Peer) -> int:
                assert succeeded(await caller.call(f"127.0.0.1:{server.port}"))
                return len(server.received)

            assert [await opened(each) for each in (one, two)] == [1, 1]
            assert [await opened(each) for each in (one, one)] == [2, 2]  # The first one was surplus.
            monkeypatch.setattr(connections, "MAX_IDLE_SECONDS", -1.0)
            assert await opened(one) == 3

    check(test)


def test_exchanges_above_the_limit_of_connections_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)

    async def test(outgoing: OutboundHttp) -> None:
        async with peer(CHUNKED) as server:
            authority = f"127.0.0.1:{server.port}"
            first = Exchange(outgoing, authority)
            assert succeeded(await first.response())
            monkeypatch.setattr(connections, "CONNECT_SECONDS", 0.05)
            second = Exchange(outgoing, authority)
            assert await second.response() == ("connection-limit-reached", None)

    check(test)


def test_codes_of_failed_calls_are_stored_for_the_last_origins() -> None:
    async def test(outgoing: OutboundHttp) -> None:
        run = Caller(outgoing).run
        for number in range(300):
            FutureResponse(f"http://{number}.example").settle(run, ("connection-refused", None))
        assert len(run.failures) <= 128 and run.failures["http://299.example"] == "connection-refused"

    check(test)
