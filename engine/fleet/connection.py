"""Connection to the nats-servers of a fleet: requests, subscriptions, retries.

Only the core client of nats-py is used. JetStream operations are requests to `$JS.API` subjects.
"""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.bucket.protocols import BucketClosed
from engine.cancellation import cancel
from engine.fleet.errors import ClusterRefused, ConnectionInterrupted, FleetNotInstalled, Unavailable

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

CONNECT_SECONDS = 10.0
FLUSH_SECONDS = 2
CLOSE_SECONDS = 3.0
TRY_SECONDS = 2.0
"""How long one try waits for an answer."""
FIRST_TRY_SECONDS = 0.1
"""The same after an election, then doubled: a server announces that it leads before it takes requests."""
PATIENCE_SECONDS = 20.0
"""How long a request is repeated: longer than an election, shorter than clients of the control API wait."""
FIRST_PAUSE_SECONDS, PAUSE_SECONDS = 0.001, 0.05
"""Pauses before the second try of a request, and the maximum before later ones. Each is twice as long."""
PING_SECONDS = 2
"""A server that leaves two pings unanswered is replaced by another."""
PENDING_BYTES = 64 << 20
ELECTIONS = "$JS.EVENT.ADVISORY.*.LEADER_ELECTED.>"
"""Subject of news that a stream has another leader. It did not get what the former one had not answered."""

_log = logging.getLogger("svc.fleet")
_NO_JETSTREAM = {10039, 10076}
_IN_PROGRESS = {10158, 10201}
"""Error codes while an earlier try of the same write is in progress."""


class Patience:
    """Limits how long an operation is repeated."""

    def __init__(self, operation: str, seconds: float | None = None) -> None:
        self._operation, self._seconds = operation, seconds or PATIENCE_SECONDS
        self._end = time.monotonic() + self._seconds
        self._pause = FIRST_PAUSE_SECONDS

    async def pause(self) -> None:
        """Wait before the next try. Raises `Unavailable` after the time limit."""
        if time.monotonic() > self._end:
            raise Unavailable(self._operation, self._seconds)
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, PAUSE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """How to reach a cluster. `servers` are URLs; the first one that answers is used."""

    servers: tuple[str, ...]
    tls: ssl.SSLContext | None = None
    user: str = ""
    password: str = ""

    @property
    def shown(self) -> str:
        return ",".join(url.rpartition("/")[2] for url in self.servers)


class NatsConnection:
    """An open connection, which reconnects to any server of the cluster."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._closed = False
        self._asking: set[asyncio.Future[Msg]] = set()

    @classmethod
    async def open(cls, address: ClusterAddress) -> "NatsConnection":
        """Connect. Raises `FleetNotInstalled`, `ClusterRefused` and `Unavailable`."""
        try:
            from nats.aio.client import Client

            from engine.fleet.transport import AbortingTransport
        except ModuleNotFoundError as error:
            raise FleetNotInstalled("nats-py") from error
        logging.getLogger("asyncio").addFilter(_is_no_eof_warning)
        failure: Exception = TimeoutError("no answer")
        given_up = opened = False

        async def on_error(error: Exception) -> None:
            nonlocal failure
            failure = error
            _log.debug("error of the NATS client: %r", error)
            refuses = isinstance(error, ssl.SSLError) or "authorization" in str(error).lower()
            if not connecting.done() and (given_up or refuses):
                raise error  # ends `connect`, which would try again

        client = Client()
        client._transport = AbortingTransport()  # type: ignore[no-untyped-call]
        connection = cls(client)
        connecting = asyncio.ensure_future(
            client.connect(
                list(address.servers),
                name="svc",
                error_cb=on_error,
                reconnected_cb=connection._repeat_requests,
                max_reconnect_attempts=-1,
                connect_timeout=2,
                ping_interval=PING_SECONDS,
                max_outstanding_pings=2,
                user=address.user or None,
                password=address.password or None,
                pending_size=PENDING_BYTES,
                reconnect_time_wait=0.1,  # type: ignore[arg-type]
                dont_randomize=True,
                tls=address.tls,
            )
        )
        try:
            await asyncio.wait([connecting], timeout=CONNECT_SECONDS)
            if connecting.done():
                connecting.result()
                await client.subscribe(ELECTIONS, cb=connection._repeat_requests)
                opened = True
                return connection
        except Exception as error:
            failure = error
        finally:
            if not opened:
                given_up = True
                await cancel([connecting])
                if not connecting.cancelled():
                    connecting.exception()  # Otherwise asyncio logs it.
                await _close(client)
        message = f"cannot connect to the fleet at {address.shown}: {str(failure) or type(failure).__name__}"
        raise ClusterRefused(message, "Check that its nodes run and can be reached.") from failure

    @property
    def server_version(self) -> tuple[int, int]:
        """The version of the connected server: major and minor."""
        version = self._client.connected_server_version
        return version.major, version.minor

    def check_open(self) -> None:
        if self._closed:
            raise BucketClosed

    async def request(
        self, subject: str, content: bytes, patience: Patience, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request until it is answered with JSON. Raises `Unavailable` and `BucketClosed`.

        Requests that write carry a message id, so that a repeated one is stored once.
        """
        seconds = TRY_SECONDS
        while True:
            self.check_open()
            asking = asyncio.ensure_future(self._client.request(subject, content, seconds, headers=headers))
            seconds = min(2 * seconds, TRY_SECONDS)
            self._asking.add(asking)
            try:
                answer: dict[str, Any] = json.loads((await asking).data)
                if not _is_temporary(answer):
                    return answer
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():  # Not to repeat it.
                    raise
                seconds = FIRST_TRY_SECONDS
            except Exception as error:  # No answer, no leader, or a lost connection.
                _log.debug("no answer on %s: %r", subject[:80], error)
            finally:
                self._asking.discard(asking)
            await patience.pause()

    async def _repeat_requests(self, _election: "Msg | None" = None) -> None:
        """Repeat the requests that have no answer, after an election or on another connection."""
        for asking in self._asking:
            asking.cancel()

    async def call(self, subject: str, content: bytes, seconds: float) -> bytes | None:
        """Send a request once and return the answer; None if nothing has subscribed to the subject.

        Raises `BucketClosed`, and `Unavailable` if no answer came.
        """
        from nats.errors import NoRespondersError

        self.check_open()
        try:
            return bytes((await self._client.request(subject, content, timeout=seconds)).data)
        except NoRespondersError:
            return None
        except Exception as error:
            raise Unavailable("a request to another node", seconds) from error

    async def api(
        self, method: str, body: Mapping[str, Any], seconds: float | None = None, allowed: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Call the JetStream API, for `seconds` if there is no answer. Raises as `request` does.

        Raises `ClusterRefused` for an error unless its code is `allowed`.
        """
        answer = await self.request(f"$JS.API.{method}", json.dumps(body).encode(), Patience(method, seconds))
        if error_code(answer) not in (None, *allowed):
            raise refused(method, answer)
        return answer

    async def publish(self, subject: str, content: bytes, *, headers: dict[str, str] | None = None) -> None:
        """Publish a message without waiting. Raises `ConnectionInterrupted` and `BucketClosed`."""
        self.check_open()
        try:
            await self._client.publish(subject, content, headers=headers)
        except Exception as error:
            raise ConnectionInterrupted from error

    async def subscribe(
        self, subject: str, on_message: "Callable[[Msg], Awaitable[None]] | None" = None
    ) -> "Subscription":
        """Subscribe to a subject; messages go to `on_message` or `next_msg`. Raises as `publish` does."""
        self.check_open()
        try:
            return await self._client.subscribe(subject, cb=on_message)
        except Exception as error:
            raise ConnectionInterrupted from error

    @property
    def reconnects(self) -> int:
        return self._client.stats["reconnects"]

    async def flush(self) -> None:
        """Wait until the server has received everything sent so far."""
        with suppress(Exception):
            # The ping of the first flush overtakes what waits to be sent. That of the second follows it.
            for _ in range(2):
                await self._client.flush(timeout=FLUSH_SECONDS)

    async def answers(self, subject: str, content: bytes) -> "AsyncGenerator[Msg, None]":
        """Send a request once, and yield its answers. Raises as `publish` does, also if one is late."""
        inbox = self._client.new_inbox()
        subscription = await self.subscribe(inbox)
        try:
            await self._client.publish(subject, content, reply=inbox)
            while True:
                yield await subscription.next_msg(timeout=TRY_SECONDS)
        except Exception as error:
            raise ConnectionInterrupted from error
        finally:
            with suppress(Exception):
                await subscription.unsubscribe()

    async def aclose(self) -> None:
        """Finish running requests and close the connection."""
        if not self._closed:
            self._closed = True
            if self._asking:
                await asyncio.wait(self._asking)
            await _close(self._client)


async def _close(client: "Client") -> None:
    # Without these, a client that reconnects would continue after it was closed.
    client.options |= {"allow_reconnect": False, "max_reconnect_attempts": 1}
    with suppress(Exception):  # A client that reconnects fails to send its last messages.
        await asyncio.wait_for(client.close(), CLOSE_SECONDS)
    transport: Any = client._transport
    transport.abort()  # A connection that stays open delays the end of uvloop for ever.


def error_code(answer: Mapping[str, Any]) -> int | None:
    """Return the code of the error in an answer of JetStream; None without an error."""
    return answer["error"].get("err_code", 0) if "error" in answer else None


def refused(operation: str, answer: Mapping[str, Any]) -> ClusterRefused:
    """Return the error of an operation that JetStream refused."""
    description = f"{answer['error'].get('description')} (error {error_code(answer)})"
    return ClusterRefused(f"the fleet refused {operation}: {description}", "Check the disks of its keepers.")


def _is_temporary(answer: Mapping[str, Any]) -> bool:
    code = error_code(answer)
    if code is None or code in _NO_JETSTREAM:
        return False
    return answer["error"].get("code") == 503 or code in _IN_PROGRESS


def _is_no_eof_warning(record: logging.LogRecord) -> bool:
    """Drop the warning of asyncio about the end of each connection that nats-py has upgraded to TLS."""
    return "eof_received() has no effect" not in str(record.msg)
