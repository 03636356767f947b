"""The client of the control API: the one way in which commands and the Console reach an engine.

Owns the connection and what its failures mean. Knows no subject: paths and documents are the API's own.
"""

import json
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import certifi
import httpx

from engine.errors import SvcError as SvcError

CONNECT_SECONDS = 5.0


class Unreachable(SvcError):
    """Nobody answers at the address."""

    code = "unreachable"


class ApiError(SvcError):
    """The service answered that it can not; `code` is its own, `members` the whole problem document."""

    def __init__(self, message: str, hint: str, code: str, members: dict[str, Any]) -> None:
        super().__init__(message, hint, code=code)
        self.members = members

    @classmethod
    def from_problem(cls, members: dict[str, Any]) -> "ApiError":
        """Return the error that a problem document tells of."""
        return cls(members["title"], members.get("hint", ""), members.get("code", "failed"), members)


class Client:
    """A session with one control API. Every method raises `Unreachable` and `Refused`."""

    def __init__(
        self,
        url: str,
        token: str,
        timeout_seconds: float | None = None,
        expired_error: Callable[[], SvcError] | None = None,
    ) -> None:
        """`answer_seconds` is how long any part of an answer may take; streams take as long as they like.

        `over` makes the error for a token that the API does not take: its own knows not where that is from.
        """
        self.url = url
        self._over = expired_error
        headers = {"authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, verify=_trusted(url), trust_env=False
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session's connections."""
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, Any] | None = None,
        content: Iterable[bytes] | None = None,
    ) -> Any:
        """Return the JSON document that answers a request; `None` for an answer without a body.

        `content` is sent as it is read, in place of a document.
        """
        sent = {"content": content} if content is not None else {"json": body}
        with self._answer(method, path, params, **sent) as response, self._failures():
            with self._failures():
                text = response.read()
            try:
                return json.loads(text) if text else None
            except (ValueError, RecursionError) as error:
                raise _stranger(response) from error

    def lines(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        body: Any = None,
        content: Iterable[bytes] | None = None,
    ) -> Iterator[Any]:
        """Yield the documents of an NDJSON answer as they come; `content` is sent as it is read."""
        sent = {"content": content} if content is not None else {"json": body}
        with self._answer(method, path, params, **sent) as response, self._failures():
            for line in response.iter_lines():
                if line:
                    yield json.loads(line)

    @contextmanager
    def download(self, path: str, *, params: dict[str, Any] | None = None) -> Iterator[Iterator[bytes]]:
        """Give the bytes of an answer as they come."""
        with self._answer("GET", path, params) as response:
            yield self._bytes(response)

    def _bytes(self, response: httpx.Response) -> Iterator[bytes]:
        with self._failures():
            yield from response.iter_bytes()

    @contextmanager
    def _answer(
        self, method: str, path: str, params: dict[str, Any] | None, **sent: Any
    ) -> Iterator[httpx.Response]:
        wanted = {key: value for key, value in (params or {}).items() if value is not None}
        with self._failures():
            request = self._http.build_request(method, path, params=wanted, **sent)
            response = self._http.send(request, stream=True)
        try:
            if not response.is_success:
                with self._failures():
                    response.read()
                error = _refused(response)
                raise self._over() if self._over and error.code == "unauthenticated" else error
            yield response
        finally:
            response.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Unreachable(
                    f"the certificate of {self.url} is not one to trust: {error}",
                    "Have SSL_CERT_FILE name the file of the authority that signed it, if it is yours.",
                ) from error
            hint = "Check the address, and that the service runs."
            raise Unreachable(f"nobody answers at {self.url}: {error}", hint) from error
        except httpx.TimeoutException as error:
            raise SvcError(f"{self.url} did not answer in time", "Try again.", code="timeout") from error
        except httpx.HTTPError as error:
            hint = "The service may have stopped; see whether it runs, and try again."
            raise Unreachable(f"the connection to {self.url} ended: {error}", hint) from error


def _trusted(url: str) -> ssl.SSLContext | bool:
    """Return whose certificates count: the system's, those of SSL_CERT_FILE, and certifi's."""
    if not url.startswith("https:"):
        return False  # nothing to check, and reading certificates takes its time
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _refused(response: httpx.Response) -> SvcError:
    try:
        members = response.json()
    except ValueError:
        members = {}
    if not isinstance(members, dict) or "title" not in members:
        return _stranger(response)
    return ApiError.from_problem(members)


def _stranger(response: httpx.Response) -> Unreachable:
    hint = "Is there a proxy in between, or another server at this address?"
    return Unreachable(
        f"{response.url} answered {response.status_code}, and not as the control API does", hint
    )
