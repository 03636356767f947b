"""Client of a certificate authority (ACME, RFC 8555). Every call blocks.

The order is read again before each step, so a step can be repeated after a restart.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from acme import challenges, client, crypto_util, errors, messages
from cryptography import x509
from josepy.errors import Error as JoseError
from josepy.jwa import ES256
from josepy.jwk import JWK

from engine.certificates.settings import AcmeSettings, AuthorityError
from engine.http.messages import retry_after

CALL_SECONDS = 20
"""Timeout of each request to the authority."""
SETTLE_SECONDS = 15.0
"""How long to wait for the other checks of an order of which one has failed."""
NONCES = 3
"""How often a request is repeated because of its nonce, each time with two nonces."""
MAX_WAIT_SECONDS = 7 * 86400.0
"""Maximum time for which an authority can defer the next attempt."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge: `text` is expected at the path of `token` of the host `name`, or in its TXT record."""

    name: str
    token: str
    text: str
    body: Any


class _Network(client.ClientNetwork):
    """Repeats requests whose nonce the authority refuses, and reads when a failed one may be repeated."""

    wait = 0.0
    """Seconds until then by the last response, 0 if it does not say it."""

    def _send_request(self, *arguments: Any, **options: Any) -> Any:
        self.wait = 0.0
        response = super()._send_request(*arguments, **options)
        if not response.ok:
            text = response.headers.get("retry-after", "")
            self.wait = retry_after(text, time.time(), MAX_WAIT_SECONDS) or 0.0
        return response

    def post(self, *arguments: Any, **options: Any) -> Any:
        """Send a signed request. Raises the errors of the package."""
        for _ in range(NONCES):
            try:
                return super().post(*arguments, **options)
            except messages.Error as error:
                if error.code != "badNonce":
                    raise
        return super().post(*arguments, **options)


def _name(authorization: messages.Authorization) -> str:
    """Return the name that an authorization is for. That of a wildcard lacks its first label."""
    prefix = "*." if authorization.wildcard else ""
    return f"{prefix}{authorization.identifier.value}"


@contextmanager
def _translated(url: str, net: _Network) -> Iterator[None]:
    try:
        yield
    except messages.Error as error:
        details = [str(each.detail) for each in error.subproblems or () if each.detail]
        text = "; ".join([error.detail or error.typ, *details])
        names = {
            str(each.identifier.value): str(each.detail or each.typ)
            for each in error.subproblems or ()
            if each.identifier is not None
        }
        raise AuthorityError(
            f"the authority refused it: {text} ({error.code or error.typ})", str(error.code), names, net.wait
        ) from error
    except (errors.Error, JoseError, OSError, ValueError, KeyError) as error:
        response = error.args[0] if error.args else None
        status = getattr(response, "status_code", None)
        cause = getattr(response, "reason", None)  # That of a connection, within two errors of requests.
        text = str(cause) if isinstance(cause, Exception) else f"status {status}" if status else repr(error)
        message = f"the authority at {url} does not answer as expected: {text:.300}"
        type_ = "notFound" if status in (404, 410) else ""
        raise AuthorityError(message, type_, wait=net.wait) from error


class Authority:
    """An account at an authority, created if it does not exist. All methods raise `AuthorityError`."""

    def __init__(self, settings: AcmeSettings, account_key: str) -> None:
        self._url = settings.directory
        self._key = JWK.load(account_key.encode())
        self._net = _Network(
            self._key,
            alg=ES256,
            verify_ssl=settings.ca_file or True,  # type: ignore[arg-type]  # requests takes a path
            user_agent="svc",
            timeout=CALL_SECONDS,
        )
        with _translated(self._url, self._net):
            directory = client.ClientV2.get_directory(settings.directory, self._net)
            self._client = client.ClientV2(directory, self._net)
            account = messages.NewRegistration.from_data(email=settings.email, terms_of_service_agreed=True)
            try:
                self._client.new_account(account)
            except errors.ConflictError as existing:
                body = messages.Registration()
                self._net.account = messages.RegistrationResource(uri=existing.location, body=body)

    def _read(self, url: str, content: Any = None) -> Any:
        return self._net.post(url, content, new_nonce_url=self._client.directory["newNonce"])

    def _order(self, url: str) -> messages.Order:
        order: messages.Order = messages.Order.from_json(self._read(url).json())
        return order

    def order(self, key: str, names: Sequence[str]) -> tuple[str, str]:
        """Order a certificate for a key (PEM); return the URL of the order and the signing request (PEM)."""
        request = crypto_util.make_csr(key.encode(), list(names))
        with _translated(self._url, self._net):
            return str(self._client.new_order(request).uri), request.decode()

    def status(self, order: str) -> str:
        """Return the status of an order: pending, ready, processing, valid or invalid."""
        with _translated(self._url, self._net):
            return str(self._order(order).status.name)

    def challenges(self, order: str, kind: Literal["http-01", "dns-01"]) -> list[Challenge]:
        """Return a challenge for each name of an order that is not proven. Raises `AuthorityError`."""
        found = []
        with _translated(self._url, self._net):
            for authorization in self._authorizations(order):
                if authorization.status != messages.STATUS_PENDING:
                    continue
                body = next((each for each in authorization.challenges if each.chall.typ == kind), None)
                if body is None:
                    name = _name(authorization)
                    raise AuthorityError(f"the authority offers no {kind.upper()} challenge for {name}")
                name = str(authorization.identifier.value)
                if kind == "dns-01":
                    name = body.chall.validation_domain_name(name)
                token = body.chall.encode("token")
                found.append(Challenge(name, token, body.chall.validation(self._key), body))
        return found

    def answer(self, offered: Sequence[Challenge]) -> None:
        """Ask the authority to check challenges, whose texts are served from now on."""
        with _translated(self._url, self._net):
            for challenge in offered:
                chall: challenges.KeyAuthorizationChallenge = challenge.body.chall
                self._read(challenge.body.uri, chall.response(self._key))

    def failure(self, order: str) -> AuthorityError:
        """Return why an order is invalid, after the checks of its other names have ended."""
        deadline = time.monotonic() + SETTLE_SECONDS
        with _translated(self._url, self._net):
            while True:
                found = self._authorizations(order)
                checking = any(each.status == messages.STATUS_PENDING for each in found)
                if not checking or time.monotonic() > deadline:
                    break
                time.sleep(0.25)
            names = {
                _name(authorization): str(challenge.error.detail)
                for authorization in found
                for challenge in authorization.challenges
                if challenge.error is not None
            }
            error = self._order(order).error
        text = "; ".join(f"{name}: {reason}" for name, reason in names.items())
        return AuthorityError(text or (str(error.detail) if error else "the order is invalid"), names=names)

    def _authorizations(self, order: str) -> list[messages.Authorization]:
        return [
            messages.Authorization.from_json(self._read(url).json())
            for url in self._order(order).authorizations
        ]

    def finalize(self, order: str, signing_request: str) -> None:
        """Request the certificate of an order that is ready."""
        request = messages.CertificateRequest(csr=x509.load_pem_x509_csr(signing_request.encode()))
        with _translated(self._url, self._net):
            self._read(self._order(order).finalize, request)

    def certificate(self, order: str) -> str:
        with _translated(self._url, self._net):
            return str(self._read(str(self._order(order).certificate)).text)

    def renewal(self, chain: str) -> tuple[float | None, float]:
        """Return when to renew a certificate by RFC 9773, and when to ask again (Unix times).

        The first is `None` if the authority does not say it.
        """
        with _translated(self._url, self._net):
            when, again = self._client.renewal_time(chain.encode())
            return when.timestamp() if when is not None else None, again.timestamp()
