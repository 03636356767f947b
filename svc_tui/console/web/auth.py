"""Authentication of browsers: one-time keys, session cookies, and checks of the Host and Origin headers."""

import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

from engine.gateway.routes import host_name
from engine.http.connection_limits import parse_ip

KEY_BYTES = 24
MAX_BROWSERS = 64
"""Maximum number of valid cookies; the oldest is dropped first."""


class BrowserAuth:
    """Authenticates browsers for the lifetime of one `svc console --web`."""

    def __init__(self, host: str, public: str, on_key: Callable[[str], None]) -> None:
        """Create the first key. `host` is the listening address, `public` the URL at a reverse proxy or "".

        `on_key` receives each new key. A key admits one browser; the next key is created then.
        """
        self._names = frozenset(("localhost", host.lower(), urlsplit(public).hostname)) - {None, ""}
        self.public = public
        self._on_key = on_key
        self._cookies: list[str] = []
        self._key = ""
        self._issue_key()

    @property
    def secure(self) -> bool:
        """True if browsers reach the page over TLS only."""
        return self.public.startswith("https:")

    def exchange_key(self, key: str) -> str | None:
        """Return a new cookie in exchange for a key, or None for a wrong key. A key works once."""
        if not _equal(key, self._key):
            return None
        self._cookies = [*self._cookies, secrets.token_urlsafe(KEY_BYTES)][-MAX_BROWSERS:]
        self._issue_key()
        return self._cookies[-1]

    def is_valid_cookie(self, cookie: str) -> bool:
        return any(_equal(cookie, issued) for issued in self._cookies)

    def is_allowed_host(self, host: str) -> bool:
        """Return whether a Host header names this server.

        Any IP address is allowed: DNS rebinding can point names here, but not addresses.
        """
        name = host_name(host)
        return name in self._names or parse_ip(name) is not None

    def _issue_key(self) -> None:
        self._key = secrets.token_urlsafe(KEY_BYTES)
        self._on_key(self._key)


def _equal(received: str, secret: str) -> bool:
    """Compare in constant time. Headers with invalid UTF-8 are received as surrogates."""
    return secrets.compare_digest(received.encode(errors="surrogateescape"), secret.encode())
