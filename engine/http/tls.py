"""TLS certificates of the server, each for some host names, and their replacement while it serves."""

import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

from engine.errors import SvcError


def new_context() -> ssl.SSLContext:
    """Return a TLS context without a certificate: TLS 1.2 and later, HTTP/2 by ALPN."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate chain and its key, as PEM files."""

    chain: Path
    key: Path

    def load(self) -> "IssuedCertificate":
        """Return what the files contain. Raises `CertificateError` if they are unusable."""
        chain, key = (read(path).decode(errors="replace") for path in (self.chain, self.key))
        if "ENCRYPTED" in chain + key:
            hint = f"Decrypt it: openssl pkey -in {self.key} -out NEW, and pass the new file."
            raise CertificateError(f"the key {self.key} is encrypted", hint)
        try:
            new_context().load_cert_chain(self.chain, self.key)
        except (OSError, ssl.SSLError) as error:
            # OpenSSL names the line of its own source too.
            reason = (getattr(error, "strerror", None) or str(error)).partition(" (_ssl")[0]
            raise CertificateError(
                f"the certificate {self.chain} with the key {self.key} cannot be used: {reason}",
                "Both are PEM files; the certificate's own comes first in its file.",
            ) from error
        return IssuedCertificate(chain, key)


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate chain and its key, as PEM texts."""

    chain: str
    key: str = field(repr=False)

    def context(self) -> ssl.SSLContext:
        """Return a TLS context with this certificate. Raises `CertificateError` if it is unusable."""
        from cryptography.hazmat.primitives import serialization  # `svc dev` starts without it.

        password = secrets.token_bytes(32)
        context = new_context()
        try:
            key = serialization.load_pem_private_key(self.key.encode(), None)
            # Python loads certificates from files only. The key is never on disk in clear.
            sealed = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password),
            )
            with NamedTemporaryFile(prefix="svc-certificate-", suffix=".pem") as file:
                file.write(self.chain.encode() + b"\n" + sealed)
                file.flush()
                context.load_cert_chain(file.name, password=password)
        except (OSError, ValueError) as error:
            hint = "Check the disk for temporary files."
            raise CertificateError(f"an issued certificate cannot be used: {error}", hint) from error
        return context


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """The certificates of a server: `named` by host name, and `default` for all other clients."""

    default: IssuedCertificate
    named: Mapping[str, IssuedCertificate] = field(default_factory=dict)


class Tls:
    """The TLS of a server, whose certificates can be replaced. Handshakes fail before it has some."""

    def __init__(self) -> None:
        self._contexts: dict[IssuedCertificate, ssl.SSLContext] = {}
        self._named: dict[str, ssl.SSLContext] = {}
        self._default = new_context()
        self.context = new_context()
        """The context to serve with. It has no certificate: the one of each connection is selected."""
        self.context.sni_callback = self._select

    def use(self, certificates: CertificateSet) -> None:
        """Replace the certificates of new connections. Raises `CertificateError` without a change."""
        all_certificates = (certificates.default, *certificates.named.values())
        contexts = {each: self._context(each) for each in all_certificates}
        self._named = {name: contexts[each] for name, each in certificates.named.items()}
        self._default, self._contexts = contexts[certificates.default], contexts

    def _context(self, certificate: IssuedCertificate) -> ssl.SSLContext:
        return self._contexts.get(certificate) or certificate.context()

    def _select(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._named.get((name or "").lower().removesuffix("."), self._default)


def read(path: Path) -> bytes:
    """Return the content of a certificate's file. Raises `CertificateError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {error.strerror}", "Check the path.") from error


class CertificateError(SvcError):
    """The certificate files cannot be used for TLS."""

    code = "certificate"
