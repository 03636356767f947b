"""The login protocol of a service, for `svc login` and the Console."""

from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import InvalidUsage, SvcError
from engine.manifest.schema import NAME_RULE, is_name
from svc_tui import version
from svc_tui.client import CONTROL_URL_HINT, ApiError, Client, Unreachable
from svc_tui.client.credentials import Credentials

API = "1"
TIMEOUT_SECONDS = 30.0
MIN_PASSWORD_CHARS = 10


def password_problem(password: str) -> str:
    """Return why a service rejects a new password, or "" if it is long enough."""
    if len(password) >= MIN_PASSWORD_CHARS:
        return ""
    return f"the password has {len(password)} characters; at least {MIN_PASSWORD_CHARS} are required"


def require_password(password: str) -> None:
    """Raise `InvalidUsage` for a new password that a service rejects."""
    if problem := password_problem(password):
        raise InvalidUsage(problem, "Enter a longer password.")


class LoginClient:
    """The login calls of one service. Methods raise `SvcError`."""

    def __init__(self, client: Client, *, insecure: bool = False) -> None:
        """`insecure` is stored with the credentials: http to another machine was allowed."""
        self._client = client
        self._insecure = insecure

    def is_claimed(self) -> bool:
        """Return whether the service has an owner.

        Raises `Unreachable` for a server that is not svc, and `SvcError` for another version of svc.
        """
        try:
            health = self._client.call("GET", "/v1/health")
        except ApiError as error:
            if error.code != "not-found":
                raise
            # Other servers return problem documents too.
            raise self._not_a_service() from error
        if not isinstance(health, dict) or health.get("status") != "ok":
            raise self._not_a_service()
        if health.get("api") != API or health.get("version", version()) != version():
            service_version = health.get("version", f"API {health.get('api')}")
            raise SvcError(
                f"version mismatch: this is svc {version()}, {self._client.url} runs {service_version}",
                "Install the same version on both.",
            )
        claim = self._client.call("GET", "/v1/claim")
        if not isinstance(claim, dict) or not isinstance(claim.get("claimed"), bool):
            raise self._not_a_service()
        return bool(claim["claimed"])

    def check_claim(self, code: str) -> None:
        """Raise `ApiError` for a wrong claim code."""
        self._client.call("POST", "/v1/claim/check", {"code": code})

    def login(self, user: str, password: str, code: str | None = None) -> Credentials:
        """Log in; with a claim code, become the first owner. Raises `SvcError` for an invalid name."""
        if not is_name(user):
            raise InvalidUsage(f"{user!r} is not a valid user name", NAME_RULE)
        body = {"user": user, "password": password}
        if code is None:
            session = self._client.call("POST", "/v1/login", body)
        else:
            require_password(password)
            session = self._client.call("POST", "/v1/claim", {**body, "code": code})
        url = self._client.url
        try:
            return Credentials(
                url, url, token=str(session["token"]), user=str(session["user"]), insecure=self._insecure
            )
        except (KeyError, TypeError) as error:
            raise self._not_a_service() from error

    def _not_a_service(self) -> Unreachable:
        return Unreachable(
            f"the server at {self._client.url} is not a svc service",
            CONTROL_URL_HINT,
        )


@contextmanager
def login_client(url: str, *, insecure: bool = False) -> Iterator[LoginClient]:
    with Client(url, "", TIMEOUT_SECONDS) as client:
        yield LoginClient(client, insecure=insecure)
