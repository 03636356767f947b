"""The TLS certificate of the server."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from engine.errors import SvcError


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate chain and its key, as PEM files."""

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return the TLS context: TLS 1.2 and later, HTTP/2 by ALPN.

        Raises `CertificateError` when the files cannot be used.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2", "http/1.1"])
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load both files. Raises `CertificateError`."""
        if b"ENCRYPTED" in read(self.chain) + read(self.key):
            hint = f"Decrypt it: openssl pkey -in {self.key} -out NEW, and pass the new file."
            raise CertificateError(f"the key {self.key} is encrypted", hint)
        try:
            context.load_cert_chain(self.chain, self.key)
        except (OSError, ssl.SSLError) as error:
            # OpenSSL names the line of its own source too.
            reason = (getattr(error, "strerror", None) or str(error)).partition(" (_ssl")[0]
            raise CertificateError(
                f"the certificate {self.chain} with the key {self.key} cannot be used: {reason}",
                "Both are PEM files; the certificate's own comes first in its file.",
            ) from error


def read(path: Path) -> bytes:
    """Return the content of a certificate's file. Raises `CertificateError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {error.strerror}", "Check the path.") from error


class CertificateError(SvcError):
    """The certificate files cannot be used for TLS."""

    code = "certificate"
