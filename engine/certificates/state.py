"""The states of the certificates of a service's host names, from those that it serves with."""

from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from engine.timeline.record import utc

if TYPE_CHECKING:
    from engine.certificates.manager import CertificateManager, Hosts
    from engine.http.tls import CertificateSet


@dataclass(frozen=True, slots=True)
class CertificateState:
    """The certificate of a host name.

    `ordered`: there will be one. `valid`: there is one until the time `until`. `failed`: there is none, or
    with `until`, that of a project lacks a name. `detail` is why none could be obtained at the last attempt,
    which may have been a renewal.
    """

    state: Literal["failed", "ordered", "valid"]
    until: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ServiceCertificate:
    """The certificate of the service's own domain. `names` are those in it, none before the first one.

    `renews_at` is when svc obtains the next one, empty if it does not. `retries_at` is when it tries again
    after a failure.
    """

    domain: str
    names: list[str]
    certificate: CertificateState
    renews_at: str = ""
    retries_at: str = ""


class CertificateStates:
    """The certificates that a service serves with, and attempts to obtain others."""

    def __init__(self, hosts: "Hosts", domain: str) -> None:
        """`hosts` returns the public host names of each project. `domain` is that of the service."""
        self.hosts, self.domain = hosts, domain
        self.used: CertificateSet | None = None
        """The certificates of the service; `None` without TLS."""
        self.manager: CertificateManager | None = None
        """Obtains certificates; `None` if they are files."""

    def of(self, project: str, name: str) -> CertificateState | None:
        """Return the state for a host name of a project, `None` without TLS."""
        if self.used is None:
            return None
        certificate = self.used.named.get(name, self.used.default)
        names, end = _leaf(certificate.chain)
        failure = self.manager.failure(project, name) if self.manager is not None else ""
        until = utc(end.timestamp())
        temporary = self.manager is not None and certificate == self.manager.temporary
        if temporary or not names & {name, f"*.{name.partition('.')[2]}"}:
            detail = f"the certificate of the service does not name {name}"
        elif end <= datetime.now(UTC):
            detail = f"the certificate expired at {until}"
        else:
            return CertificateState("valid", until, failure)
        if self.manager is None:
            return CertificateState("failed", detail=detail)
        return CertificateState("failed" if failure else "ordered", detail=failure)

    def of_service(self) -> ServiceCertificate | None:
        """Return the service's certificate, `None` without TLS."""
        state = self.of("", self.domain)
        if state is None or self.used is None:
            return None
        names = sorted(_leaf(self.used.default.chain)[0])
        if self.manager is None:
            return ServiceCertificate(self.domain, names, state)
        if self.used.default == self.manager.temporary:
            names = []
        times = (utc(each) if each else "" for each in self.manager.times())
        return ServiceCertificate(self.domain, names, state, *times)

    def of_addresses(self, project: str, domains: Container[str]) -> CertificateState | None:
        """Return the state of the first host name without a valid certificate that is not in `domains`.

        If it failed and others are valid, it has their `until`, and `detail` contains the host name.
        """
        names = [each for each in self.hosts().get(project, ()) if each not in domains]
        states = [(name, state) for name in names if (state := self.of(project, name)) is not None]
        valid = next((state for _, state in states if state.state == "valid"), None)
        name, lacking = next((each for each in states if each[1].state != "valid"), ("", valid))
        if valid is None or lacking is None or lacking.state != "failed":
            return lacking
        detail = lacking.detail if name in lacking.detail else f"{name}: {lacking.detail}"
        return replace(lacking, until=valid.until, detail=detail)


@lru_cache(100)
def _leaf(chain: str) -> tuple[frozenset[str], datetime]:
    from cryptography import x509  # `svc dev` starts without it.

    leaf = x509.load_pem_x509_certificate(chain.encode())
    try:
        alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset(), leaf.not_valid_after_utc
    return frozenset(alternative.get_values_for_type(x509.DNSName)), leaf.not_valid_after_utc
