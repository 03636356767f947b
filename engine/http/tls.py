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
        """Load both files. Raises `CertificateError`, which names a file that cannot be read."""
        check_readable(self.chain)
        check_readable(self.key)
        try:
            context.load_cert_chain(self.chain, self.key, self._refuse_encrypted)
        except (OSError, ssl.SSLError) as error:
            # OpenSSL names the line of its own source too.
            reason = (getattr(error, "strerror", None) or str(error)).partition(" (_ssl")[0]
            raise CertificateError(
                f"the certificate {self.chain} with the key {self.key} cannot be used: {reason}",
                "Both are PEM files; the certificate's own comes first in its file.",
            ) from error

    def _refuse_encrypted(self) -> str:
        raise CertificateError(
            f"the key {self.key} is encrypted",
            f"Decrypt it: openssl pkey -in {self.key} -out NEW, and pass the new file.",
        )


def check_readable(path: Path) -> None:
    """Raise `CertificateError` if a file cannot be read."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {error.strerror}", "Check the path and its permissions.") from error


class CertificateError(SvcError):
    """The certificate files cannot be used for TLS."""

    code = "certificate"
