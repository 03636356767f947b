"""What a guest is told when a call to another server fails: the error-code of wasi:http for it.

Owns the translation from what httpcore, h11 and ssl raise; it calls nobody.
"""

import re
import ssl
from typing import Any

import anyio
import h11
import httpcore

from engine.wasm.outbound.dialer import AddressDenied, NameNotResolved

ErrorCode = tuple[str, Any]
"""A case of wasi:http's `error-code`, and its payload."""
NETWORK_ERRORS = (
    AddressDenied,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    h11.LocalProtocolError,  # of a body that is not as long as announced; httpcore lets it through
    OSError,
)
"""What a call may fail with."""
_INCOMPLETE = re.compile("disconnected|peer closed")
_ALERT = re.compile(r"_ALERT_(\w+)")
_ERRORS: list[tuple[type[Exception], ErrorCode]] = [
    (AddressDenied, ("destination-IP-prohibited", None)),
    (NameNotResolved, ("DNS-error", (None, None))),
    (httpcore.ConnectTimeout, ("connection-timeout", None)),
    (httpcore.ReadTimeout, ("connection-read-timeout", None)),
    (httpcore.WriteTimeout, ("connection-write-timeout", None)),
    (httpcore.PoolTimeout, ("connection-limit-reached", None)),
    (httpcore.ConnectError, ("connection-refused", None)),
    (httpcore.RemoteProtocolError, ("HTTP-protocol-error", None)),
    (httpcore.LocalProtocolError, ("HTTP-protocol-error", None)),
    (h11.LocalProtocolError, ("HTTP-protocol-error", None)),
    (httpcore.NetworkError, ("connection-terminated", None)),
]


class BodyError(httpcore.LocalProtocolError):
    """The guest did not write the body that it announced; `code` says so."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code[0])
        self.code = code


def error_code(error: Exception) -> ErrorCode:
    """Return the wasi:http error-code for a failure of the network."""
    if isinstance(error, BodyError):
        return error.code
    if isinstance(error, httpcore.RemoteProtocolError) and _INCOMPLETE.search(str(error)):
        return ("HTTP-response-incomplete", None)
    if isinstance(error, httpcore.ConnectError):
        # To httpcore, a handshake that fails is a connection that fails; what it hides says more.
        hidden = error.__context__
        if isinstance(hidden, anyio.EndOfStream | anyio.BrokenResourceError):
            return ("connection-terminated", None)
        if isinstance(hidden, ssl.SSLError):
            return _tls_code(hidden)
    return next((code for kind, code in _ERRORS if isinstance(error, kind)), ("internal-error", None))


def _tls_code(error: ssl.SSLError) -> ErrorCode:
    """Tell apart a certificate that is not trusted, an alert that the server sent, and what is no TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ("TLS-certificate-error", None)
    alert = _ALERT.search(error.reason or "")
    if alert is None:
        return ("TLS-protocol-error", None)
    return ("TLS-alert-received", (None, alert[1].replace("_", " ").lower()))
