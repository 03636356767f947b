"""Beginning a session with a service, whoever asks for it: `svc login`, or the Console's own screen.

Owns what is sent and what may answer. Asks nobody anything and keeps nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import SvcError
from engine.manifest.schema import NAME_RULE, is_name
from svc_tui.client import ApiError, Client, Unreachable
from svc_tui.client.credentials import Credentials

TIMEOUT_SECONDS = 30.0


class LoginClient:
    """The way into one service. Every method raises `SvcError`."""

    def __init__(self, client: Client, *, insecure: bool = False) -> None:
        """`insecure` is kept with the session: that http to another machine was allowed."""
        self._client = client
        self._insecure = insecure

    def is_claimed(self) -> bool:
        """Return whether the service has an owner. Raises `Unreachable` for what is no service of svc."""
        try:
            health = self._client.call("GET", "/v1/health")
        except ApiError as error:
            if error.code != "not-found":
                raise
            # The applications' address answers in the same form.
            raise self._stranger() from error
        if not isinstance(health, dict) or health.get("status") != "ok":
            raise self._stranger()
        if health.get("api") != "1":
            raise SvcError(f"{self._client.url} is another version of svc", "Update svc here, or there.")
        found = self._client.call("GET", "/v1/claim")
        if not isinstance(found, dict) or not isinstance(found.get("claimed"), bool):
            raise self._stranger()
        return bool(found["claimed"])

    def login(self, user: str, password: str, code: str | None = None) -> Credentials:
        """Log in; with the claim code, become the first owner."""
        if not is_name(user):
            raise SvcError(f"{user!r} is not a name for a user", NAME_RULE, code="usage")
        body: dict[str, Any] = {"user": user, "password": password}
        if code is not None:
            body["code"] = code
        opened = self._client.call("POST", "/v1/login" if code is None else "/v1/claim", body)
        url = self._client.url
        try:
            return Credentials(url, url, str(opened["token"]), str(opened["user"]), insecure=self._insecure)
        except (KeyError, TypeError) as error:
            raise self._stranger() from error

    def _stranger(self) -> Unreachable:
        return Unreachable(
            f"what answers at {self._client.url} is no service of svc",
            "Give the address of the control API, which `svc serve` prints.",
        )


@contextmanager
def login_client(url: str, *, insecure: bool = False) -> Iterator[LoginClient]:
    """Give the way into the service at an address."""
    with Client(url, "", TIMEOUT_SECONDS) as client:
        yield LoginClient(client, insecure=insecure)
