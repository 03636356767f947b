"""HTTP client of the control API, used by all commands and by the Console."""

import json
import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from engine.errors import InvalidUsage as InvalidUsage
from engine.errors import SvcError as SvcError

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
CONTROL_URL_HINT = "Use the URL of the control API, which `svc serve` prints."


class Unreachable(SvcError):
    """A connection that cannot be opened or breaks."""

    code = "unreachable"


class ApiError(SvcError):
    """An error response of the control API; `members` is its problem document (RFC 9457)."""

    def __init__(self, members: dict[str, Any]) -> None:
        super().__init__(members["title"], members.get("hint", ""), code=members.get("code"))
        self.members = members


class Client:
    """A client of one control API. Methods raise `Unreachable`, `ApiError`, or `SvcError` on a timeout."""

    def __init__(
        self,
        url: str,
        token: str,
        timeout_seconds: float | None = None,
        expired_error: Callable[[], SvcError] | None = None,
    ) -> None:
        """`timeout_seconds` limits the wait for each part of a response; None waits forever.

        `expired_error` returns the error to raise when the API rejects the token.
        """
        # Imported on demand: it takes as long as the rest of a start, and not every command sends a request.
        import httpx

        self.url = url
        self.stopped = False
        """Whether a command opened the folder of a stopped service."""
        self.project = ""
        """The project of paths without a slash at their beginning."""
        self._expired_error = expired_error
        verify: ssl.SSLContext | bool = False  # loading certificates is slow, and plain http needs none
        if url.startswith("https:"):
            import certifi

            verify = ssl.create_default_context()  # the system's certificates and SSL_CERT_FILE
            verify.load_verify_locations(certifi.where())
        self._verify = verify
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, verify=verify, trust_env=False
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: Any = None, **request: Any) -> Any:
        """Send a request and return the JSON document of its response; None for an empty one.

        `params` are those of the query. `content` is streamed as the body instead of a JSON document.
        """
        with self._response(method, path, body, **request) as response:
            text = response.read()
            try:
                return json.loads(text) if text else None
            except (ValueError, RecursionError) as error:
                raise _not_the_api(response) from error

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON document at a path. Parameters that are None are left out."""
        return self.call("GET", path, params=params)

    async def cancelable(self, method: str, path: str, body: Any) -> Any:
        """Like `call`, on a connection of its own: cancellation closes it, which ends work of the API."""
        import httpx

        options: dict[str, Any] = {"headers": self._http.headers, "verify": self._verify}
        async with httpx.AsyncClient(**options, timeout=self._http.timeout, trust_env=False) as http:
            with self._failures():
                response = await http.request(method, self.url + path, json=body)
        if not response.is_success:
            raise self._refused(_api_error(response))
        return response.json()

    def lines(self, method: str, path: str, body: Any = None, **request: Any) -> Iterator[Any]:
        """Send a request as `call` does, and yield the documents of its NDJSON response.

        Raises `ApiError` for a line `{"error": {…}}`, which ends a response.
        """
        with self._response(method, path, body, **request) as response:
            for line in response.iter_lines():
                if line:
                    document = json.loads(line)
                    if "error" in document:
                        raise self._refused(ApiError(document["error"]))
                    yield document

    @contextmanager
    def download(self, path: str, *, params: dict[str, Any] | None = None) -> Iterator[Iterator[bytes]]:
        """Send a GET request and yield an iterator over the bytes of its response."""
        with self._response("GET", path, params=params) as response:
            yield self._bytes(response)

    def _bytes(self, response: "httpx.Response") -> Iterator[bytes]:
        with self._failures():
            yield from response.iter_bytes()

    @contextmanager
    def _response(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, Any] | None = None,
        content: Iterable[bytes] | None = None,
    ) -> "Iterator[httpx.Response]":
        payload: dict[str, Any] = {"json": body} if content is None else {"content": content}
        path = path if path.startswith("/") else f"/v1/projects/{self.project}/{path}"
        query = {key: value for key, value in (params or {}).items() if value is not None}
        with self._failures(), self._http.stream(method, path, params=query, **payload) as response:
            if not response.is_success:
                response.read()
                raise self._refused(_api_error(response))
            yield response

    def _refused(self, error: SvcError) -> SvcError:
        return self._expired_error() if self._expired_error and error.code == "unauthenticated" else error

    @contextmanager
    def _failures(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.ConnectError as error:
            if "mismatch, certificate is not valid for" in str(error):
                raise Unreachable(
                    f"the certificate of {self.url} is for another name",
                    "Use the URL that `svc serve` prints, with the domain of the service. On the server,"
                    " `svc login --data DIR` needs none.",
                ) from error
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Unreachable(
                    f"the certificate of {self.url} is not trusted: {error}",
                    "With --acme, a new service has its certificate within a minute, or its log says why not."
                    " For a private certificate authority, set SSL_CERT_FILE to its certificate.",
                ) from error
            hint = "Check the address, and that the service is running."
            reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error))
            raise Unreachable(f"cannot connect to {self.url}: {reason}", hint) from error
        except httpx.TimeoutException as error:
            hint = "Check the load and the log of the service, then run the command again."
            raise SvcError(f"{self.url} did not respond in time", hint, code="timeout") from error
        except httpx.HTTPError as error:
            hint = "Check that the service is running, then run the command again."
            raise Unreachable(f"lost the connection to {self.url}: {error}", hint) from error


def _api_error(response: "httpx.Response") -> SvcError:
    try:
        members = response.json()
    except ValueError:
        members = {}
    if not isinstance(members, dict) or "title" not in members:
        return _not_the_api(response)
    if "request_id" in members:
        message = f"{response.url} is an address of applications, not of the control API"
        return Unreachable(message, CONTROL_URL_HINT)
    return ApiError(members)


def _not_the_api(response: "httpx.Response") -> Unreachable:
    hint = "Check for a proxy in between, or another server at this address."
    if response.url.scheme == "http" and response.status_code == 400:
        hint = "Use https:// and the domain of the service, if it serves with TLS."
    return Unreachable(
        f"{response.url} returned {response.status_code}, but not a response of the control API", hint
    )
