"""Connections to other servers, by HTTP/1.1; a response may arrive while its request is being sent.

Only permitted addresses are connected to. The address rule is applied after name resolution, and the
connection uses exactly the checked address. A name server that changes its answer later (DNS rebinding)
therefore gains nothing.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from time import perf_counter_ns

import h11
import httpcore

from engine.manifest.egress import Egress, Origin, is_address
from engine.trace import Call

Address = IPv4Address | IPv6Address
Resolve = Callable[[str], Awaitable[list[str]]]
"""Resolves a host name to addresses, in the order to try them; raises `OSError`."""
CONNECT_SECONDS = 10.0
ATTEMPT_SECONDS = 2.5
"""Connect timeout per address while further addresses remain."""
MAX_LOOKUPS = 64
"""Concurrent name lookups of all resources."""
MAX_LOOKUPS_PER_RESOURCE = 8
"""Concurrent name lookups of one resource."""
connecting: ContextVar[Call | None] = ContextVar("connecting", default=None)
"""The call whose task connects: a lookup sets `dns_ns` of it."""
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL = tuple(map(ip_network, ("192.0.0.0/24", "2001::/23", "3fff::/20", "168.63.129.16/32")))
"""Networks that versions of Python take for global; the last one is the host of a machine of Azure."""


class AddressDenied(Exception):
    """A name resolves only to addresses outside `egress`; `address` is the first of them."""

    def __init__(self, address: Address) -> None:
        super().__init__(str(address))
        self.address = address


class NameNotResolved(httpcore.ConnectError):
    """A name has no address."""


class SystemResolver:
    """Resolves names through the operating system, in its own thread pool.

    A lookup can be slow and cannot be canceled, so it must not block the shared threads (files, Doors).
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, thread_name_prefix="resolver")

    async def __call__(self, host: str) -> list[str]:
        lookup = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        entries = await asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))

    def close(self) -> None:
        """Stop the pool; lookups in progress finish in the background."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_public(address: Address) -> bool:
    """Return whether an address is globally routable: not loopback, link-local, private or multicast.

    IPv6 forms of an IPv4 address (mapped, NAT64, 6to4) are checked as that IPv4 address. Source: IANA's
    special-purpose address registries (RFC 6890), as implemented in Python's `ipaddress`.
    """
    if any(address in network for network in _LOCAL):
        return False
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        return address in _GLOBAL_UNICAST and address.is_global
    return address.is_global and not address.is_multicast


def permitted(egress: Egress, host: str, port: int, addresses: Sequence[str]) -> list[str]:
    """Return the addresses of a host that may be connected to: public ones, and those that `egress` names.

    Raises `AddressDenied` if all are denied. There must be an address.
    """
    resolved = [ip_address(text) for text in addresses]
    loopback = host == "localhost" or host.endswith(".localhost")
    allowed = [
        str(address)
        for address in resolved
        if (address.is_loopback and loopback)
        or any(rule.host == str(address) and rule.port == port for rule in egress.allowed)
        or is_public(address)
    ]
    if not allowed:
        raise AddressDenied(resolved[0])
    return allowed


class Dialer:
    """Opens connections for one resource."""

    def __init__(self, egress: Egress, resolve: Resolve) -> None:
        self._egress = egress
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()
        self._lookups = asyncio.Semaphore(MAX_LOOKUPS_PER_RESOURCE)

    async def connect_tcp(
        self, host: str, port: int, seconds: float = CONNECT_SECONDS
    ) -> httpcore.AsyncNetworkStream:
        """Connect to an origin's host. Raises AddressDenied and httpcore's errors."""
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._addresses(host, port)
                for address in addresses[:-1]:
                    try:
                        return await self._network.connect_tcp(address, port, ATTEMPT_SECONDS)
                    except (httpcore.ConnectError, httpcore.ConnectTimeout):
                        continue
                return await self._network.connect_tcp(addresses[-1], port)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host}:{port}") from None

    async def _addresses(self, host: str, port: int) -> list[str]:
        if is_address(host):
            return [host]  # `egress` allowed exactly this address.
        started, call = perf_counter_ns(), connecting.get()
        try:
            await self._lookups.acquire()
            lookup = asyncio.ensure_future(self._resolve(host))  # It has its slot even if this is canceled.
            lookup.add_done_callback(self._on_lookup_done)
            texts = await asyncio.shield(lookup)
        except OSError as error:
            raise NameNotResolved(str(error)) from error
        finally:
            if call is not None and call.details is not None:
                call.details["dns_ns"] = perf_counter_ns() - started
        if not texts:
            raise NameNotResolved(host)
        return permitted(self._egress, host, port, texts)

    def _on_lookup_done(self, lookup: "asyncio.Future[list[str]]") -> None:
        self._lookups.release()
        if not lookup.cancelled():
            lookup.exception()


MAX_CONNECTIONS = 256
"""Maximum number of connections of a resource by one scheme."""
MAX_IDLE = 64
MAX_IDLE_SECONDS = 15.0
MAX_HEAD_BYTES = 102_400
_READ_BYTES = 65_536


class Connection:
    """A connection to an origin, for one exchange at a time."""

    def __init__(self, origin: Origin, stream: httpcore.AsyncNetworkStream) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._stream = stream
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def send(self, part: h11.Event, seconds: float) -> None:
        await self._stream.write(self._protocol.send(part) or b"", seconds)

    async def receive(self, seconds: float) -> h11.Event:
        """Return the next part of the response."""
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._stream.read(_READ_BYTES, seconds))
        assert isinstance(event, h11.Event)  # No request asks for another protocol.
        return event

    async def head(self, seconds: float) -> h11.Response:
        """Return the head of the response, without those of interim responses."""
        while not isinstance(head := await self.receive(seconds), h11.Response):
            pass
        return head

    async def body(self, seconds: float) -> AsyncIterator[bytes]:
        while isinstance(part := await self.receive(seconds), h11.Data):
            yield bytes(part.data)

    @property
    def answered(self) -> bool:
        """True once the response is complete, if the server waits for the rest of the request."""
        return self._protocol.their_state is h11.DONE

    def reset(self) -> bool:
        """Prepare for the next exchange; return whether there can be one."""
        unexpected, _ = self._protocol.trailing_data
        if self._protocol.our_state is not h11.DONE or not self.answered or unexpected:
            return False
        self._protocol.start_next_cycle()
        return True

    def is_open(self) -> bool:
        """Return whether the server has not closed the idle connection."""
        return not self._stream.get_extra_info("is_readable")

    async def aclose(self) -> None:
        await self._stream.aclose()


class ConnectionPool:
    """The connections of a resource by one scheme, and the number of its exchanges in progress."""

    def __init__(self, dialer: Dialer, tls: ssl.SSLContext | None) -> None:
        self.exchanges = 0
        self.used_at = 0.0
        self._dialer = dialer
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["http/1.1"])
        self._permits = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: deque[Connection] = deque()
        self._closed = False

    @asynccontextmanager
    async def connection(self, origin: Origin, seconds: float) -> AsyncIterator[Connection]:
        """Return a connection for an exchange; `seconds` is the timeout to open one.

        Raises `AddressDenied` and httpcore's errors.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._permits.acquire()
        except TimeoutError:
            raise httpcore.PoolTimeout(str(origin)) from None
        self.exchanges += 1
        try:
            connection = await self._reused(origin) or await self._opened(origin, seconds)
            try:
                yield connection
            finally:
                if not self._closed and connection.reset():
                    connection.idle_since = asyncio.get_running_loop().time()
                    self._idle.append(connection)
                else:
                    await connection.aclose()
        finally:
            self.exchanges -= 1
            self.used_at = asyncio.get_running_loop().time()
            self._permits.release()

    async def _reused(self, origin: Origin) -> Connection | None:
        """Return an idle connection to an origin; close those that can no longer be used."""
        oldest, found, closing = asyncio.get_running_loop().time() - MAX_IDLE_SECONDS, None, []
        while self._idle and (
            self._idle[0].idle_since < oldest
            or len(self._idle) > min(MAX_IDLE, MAX_CONNECTIONS - self.exchanges)
        ):
            closing.append(self._idle.popleft())
        for connection in [each for each in reversed(self._idle) if each.origin == origin]:
            self._idle.remove(connection)
            if connection.is_open():
                found = connection
                break
            closing.append(connection)
        for connection in closing:
            await connection.aclose()
        return found

    async def _opened(self, origin: Origin, seconds: float) -> Connection:
        stream = await self._dialer.connect_tcp(origin.host, origin.port, seconds)
        if self._tls is not None:
            try:
                stream = await stream.start_tls(self._tls, origin.host, seconds)
            except BaseException:
                await stream.aclose()
                raise
        call = connecting.get()
        if call is not None and call.details is not None:
            call.details["connect_ns"] = perf_counter_ns() - call.start_ns
        return Connection(origin, stream)

    async def aclose(self) -> None:
        """Close the idle connections now, and those in use after their exchanges."""
        self._closed = True
        while self._idle:
            await self._idle.popleft().aclose()
