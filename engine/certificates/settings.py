"""Choice of a certificate authority, its errors, and the optional packages of `acme` and `dns`."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from engine.errors import SvcError

if TYPE_CHECKING:
    from engine.certificates.dns_provider import DnsProvider

LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"


@dataclass(frozen=True, slots=True)
class AcmeSettings:
    """An account at a certificate authority. `ca_file` has the certificates to trust it by, as PEM.

    With `dns`, the service's own domain is proven by DNS-01, and its certificate has a wildcard.
    """

    email: str
    directory: str = LETS_ENCRYPT
    ca_file: str = ""
    dns: "DnsProvider | None" = None


class AuthorityError(SvcError):
    """The authority refused a step or did not answer.

    `type` is the ACME error type, `notFound` for a URL that it does not have, or empty. `names` has the
    reasons by host name if it refused single ones. It asks not to be tried again for `wait` seconds.
    """

    code = "acme"

    def __init__(
        self, message: str, type_: str = "", names: Mapping[str, str] | None = None, wait: float = 0
    ) -> None:
        super().__init__(message)
        self.type, self.names, self.wait = type_, names or {}, wait


def require_acme() -> None:
    """Raise `SvcError` if a package of the extra `acme` is missing."""
    if None in (find_spec("acme"), find_spec("josepy"), find_spec("dns")):
        hint = "Install it: pip install 'svc-tui[acme]'"
        raise SvcError("the package acme is not installed", hint, code="acme-not-installed")


def require_dns() -> None:
    """Raise `SvcError` if a package of the extra `dns` is missing."""
    if None in (find_spec("lexicon"), find_spec("dns")):
        hint = "Install it: pip install 'svc-tui[acme,dns]'"
        raise SvcError("the package dns-lexicon is not installed", hint, code="dns-not-installed")
