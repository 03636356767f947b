"""Mapping from errors of httpcore, h11 and ssl to the error-codes of wasi:http."""

import re
import ssl

import anyio
import h11
import httpcore

from engine.wasm.outbound.dialer import AddressDenied, NameNotResolved
from engine.wasm.outbound.messages import ErrorCode

NETWORK_ERRORS = (
    AddressDenied,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    h11.LocalProtocolError,  # body length differs from content-length; httpcore does not convert it
    OSError,
)
"""Errors that an outgoing request may raise."""
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
    """The guest did not write the declared body; `code` is the reason."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code[0])
        self.code = code


_ENDED = (anyio.EndOfStream, anyio.BrokenResourceError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Errors of a connection that the peer closed. Python before 3.11.3 reports a TLS error."""


def error_code(error: Exception) -> ErrorCode:
    """Return the wasi:http error-code for a network error."""
    if isinstance(error, BodyError):
        return error.code
    if isinstance(error, httpcore.RemoteProtocolError) and _INCOMPLETE.search(str(error)):
        return ("HTTP-response-incomplete", None)
    if isinstance(error, httpcore.ConnectError):
        # httpcore reports a failed handshake as a failed connection; its context has the cause.
        hidden = error.__context__
        if isinstance(hidden, _ENDED):
            return ("connection-terminated", None)
        if isinstance(hidden, ssl.SSLError):
            return _tls_code(hidden)
    return next((code for kind, code in _ERRORS if isinstance(error, kind)), ("internal-error", None))


def _tls_code(error: ssl.SSLError) -> ErrorCode:
    """Return the code for an untrusted certificate, a received alert, or a non-TLS peer."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ("TLS-certificate-error", None)
    alert = _ALERT.search(error.reason or "")
    if alert is None:
        return ("TLS-protocol-error", None)
    return ("TLS-alert-received", (None, alert[1].replace("_", " ").lower()))
