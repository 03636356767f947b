"""Who may see the Console's page: a key that works once, a cookie after it, and from which names and pages.

Owns keys and cookies. Knows no HTTP server.
"""

import ipaddress
import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

KEY_BYTES = 24
MAX_BROWSERS = 64
"""How many browsers are remembered; the one that came first is forgotten first."""
_LOOPBACK_NAMES = ("localhost",)


class BrowserAuth:
    """The door to the page, as long as one `svc console --web` runs."""

    def __init__(self, host: str, public: str, tell: Callable[[str], None]) -> None:
        """`host` is what is listened on, `public` the address that a proxy gives it, or empty.

        `tell` gets each key, the first one at once: each lets one browser in, and another follows.
        """
        self._names = frozenset((*_LOOPBACK_NAMES, host.lower(), urlsplit(public).hostname)) - {None, ""}
        self._public = public
        self._on_key = tell
        self._cookies: list[str] = []
        self._key = ""
        self._issue_key()

    @property
    def secure(self) -> bool:
        """Whether browsers reach the page over TLS only."""
        return self._public.startswith("https:")

    def exchange_key(self, key: str) -> str | None:
        """Return the value of a new cookie for a key, which is used up by that; `None` for a wrong one."""
        if not secrets.compare_digest(key.encode(), self._key.encode()):
            return None
        self._cookies = [*self._cookies, secrets.token_urlsafe(KEY_BYTES)][-MAX_BROWSERS:]
        self._issue_key()
        return self._cookies[-1]

    def is_valid_cookie(self, cookie: str) -> bool:
        """Return whether a cookie is of a browser that came in."""
        given = cookie.encode()
        return any(secrets.compare_digest(given, each.encode()) for each in self._cookies)

    def is_allowed_host(self, host: str) -> bool:
        """Return whether a Host field names this page, and is not a name that others made lead here.

        An address is: names can be made to lead anywhere (DNS rebinding), addresses can not.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or _is_address(name)

    def is_same_origin(self, origin: str, host: str) -> bool:
        """Return whether the Origin field of a request says that it was made by this page."""
        return origin in (f"http://{host}", self._public or None)

    def socket_url(self, host: str) -> str:
        """Return where the page finds its socket, for a browser that asked for the page by `host`."""
        address = self._public or f"http://{host}"
        return f"ws{address.removeprefix('http')}/ws"

    def _issue_key(self) -> None:
        self._key = secrets.token_urlsafe(KEY_BYTES)
        self._on_key(self._key)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
