"""HTTP sessions of exporters: bounded responses, and for projects the address rules of `egress`.

The session of a project ignores the environment of the service, which may have headers, certificates and
proxies of its operator. It connects to the address that was checked, so a later answer of the name server
changes nothing.
"""

import socket
import time
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NameResolutionError, NewConnectionError
from urllib3.util.connection import create_connection

from engine.manifest.collector import Collector
from engine.manifest.egress import Egress
from engine.wasm.outbound.dialer import AddressDenied, permitted

MAX_RESPONSE_BYTES = 64 << 10
"""Maximum bytes of a response that are read."""
RESPONSE_SECONDS = 10.0
"""Maximum time to read the body of a response."""
ATTEMPT_SECONDS = 5.0
"""Maximum time to connect to an address."""
_OWN_HEADERS = frozenset({"content-type", "content-encoding", "user-agent"})
"""Headers of the SDK that a project's session sends. Others come from the environment."""


class CollectorSession(requests.Session):
    """A session whose `status` is that of its last response, 0 without one; `error` says what failed."""

    def __init__(self) -> None:
        super().__init__()
        self.status, self.error = 0, ""
        for scheme in ("http://", "https://"):
            self.mount(scheme, _BoundedAdapter())

    def reset(self) -> None:
        """Forget the last response."""
        self.status, self.error = 0, ""

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        """Send a request. Raises what `requests` raises."""
        try:
            response = super().request(method, url, *args, **options)
        except (requests.RequestException, OSError) as error:
            self.status, self.error = 0, _reason(error)
            raise
        self.status, self.error = response.status_code, f"status {response.status_code}"
        return response


class ProjectSession(CollectorSession):
    """A session for the collector that a project names, and the headers that it sends to it."""

    def __init__(self, collector: Collector, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._own_headers = headers
        self.trust_env = False
        egress = Egress((collector.origin,))
        for scheme in ("http://", "https://"):
            self.mount(scheme, _CheckedAdapter(egress))

    def request(
        self, method: Any, url: Any, *args: Any, headers: Mapping[str, Any] | None = None, **options: Any
    ) -> requests.Response:
        """Send a request without what the environment of the service adds to it."""
        self.verify, self.cert = True, None  # The SDK sets both by environment variables.
        own = {key: value for key, value in (headers or {}).items() if key.lower() in _OWN_HEADERS}
        return super().request(method, url, *args, headers={**own, **self._own_headers}, **options)


class _BoundedAdapter(HTTPAdapter):
    """Reads a bounded part of a response, in bounded time."""

    def send(self, request: Any, *args: Any, **options: Any) -> requests.Response:
        """Send a request, and return the response with a body of at most `MAX_RESPONSE_BYTES`."""
        response = super().send(request, *args, **options | {"stream": True})
        raw, body, deadline = response.raw, bytearray(), time.monotonic() + RESPONSE_SECONDS
        try:
            while len(body) < MAX_RESPONSE_BYTES and time.monotonic() < deadline:
                part = raw.read1(4096)
                if not part:
                    raw.release_conn()
                    break
                body += part
            else:
                raw.close()
        except BaseException:
            raw.close()
            raise
        response.raw = BytesIO(body[:MAX_RESPONSE_BYTES])
        return response


class _CheckedAdapter(_BoundedAdapter):
    """Connects to addresses that `egress` permits."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Create the pools, with connections that check addresses."""
        super().init_poolmanager(*args, **options)
        egress = self._egress

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                return _connected(self, egress)

        class Encrypted(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                return _connected(self, egress)

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class EncryptedPool(HTTPSConnectionPool):
            ConnectionCls = Encrypted

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": EncryptedPool}


def _connected(connection: HTTPConnection, egress: Egress) -> socket.socket:
    """Resolve the host of a connection, and connect to the first permitted address that answers."""
    host, port = connection.host.strip("[]"), connection.port or connection.default_port
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NameResolutionError(host, connection, socket.gaierror(error.errno, error.strerror)) from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    try:
        allowed = permitted(egress, host, port, addresses)
    except AddressDenied as error:
        raise NewConnectionError(connection, f"{host} has the private address {error.address}") from None
    failure: OSError = OSError("no address")
    for address in allowed:
        try:
            return create_connection((address, port), ATTEMPT_SECONDS, None, connection.socket_options)
        except OSError as error:
            failure = error
    raise NewConnectionError(connection, str(failure)) from failure


def _reason(error: BaseException) -> str:
    """Return the text of the innermost cause of an error."""
    cause = error
    for _ in range(10):
        context = None if cause.__suppress_context__ else cause.__context__
        inner = getattr(cause, "reason", None) or cause.__cause__ or context
        if not isinstance(inner, BaseException):
            inner = next((each for each in cause.args if isinstance(each, BaseException)), None)
        if inner is None:
            break
        cause = inner
    return (getattr(cause, "strerror", None) or str(cause) or type(cause).__name__)[:200]
