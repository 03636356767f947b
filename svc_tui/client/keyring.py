"""Session tokens in the system's keyring. A keyring that fails or blocks never fails a command."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
SERVICE = "svc"
TIMEOUT_SECONDS = 20.0
"""Time limit of one call: a keyring may prompt the user to unlock it."""
_MIN_PRIORITY = 1
"""Priority of a backend that encrypts; insecure backends have a lower one."""


class Keyring:
    """Storage of secrets by name; every method gives up after `seconds`."""

    def __init__(self, seconds: float = TIMEOUT_SECONDS) -> None:
        self._seconds = seconds

    def save(self, name: str, secret: str) -> bool:
        """Store a secret and return whether that succeeded."""

        def work(backend: Any) -> bool:
            backend.set_password(SERVICE, name, secret)
            return bool(backend.get_password(SERVICE, name) == secret)

        return bool(self._try(work))

    def get(self, name: str) -> str | None:
        """Return a secret, or None if it is missing or unreadable."""
        secret = self._try(lambda backend: backend.get_password(SERVICE, name))
        return secret if isinstance(secret, str) else None

    def delete(self, name: str) -> None:
        """Delete a secret; failures are ignored."""
        self._try(lambda backend: backend.delete_password(SERVICE, name))

    def _try(self, work: Callable[[Any], T]) -> T | None:
        results: list[T] = []

        def run() -> None:
            # Backends are third-party code and raise any error.
            try:
                import keyring

                backend = keyring.get_keyring()
                if backend.priority >= _MIN_PRIORITY:
                    results.append(work(backend))
            except Exception:
                return

        thread = threading.Thread(target=run, name="keyring", daemon=True)
        thread.start()
        thread.join(self._seconds)
        return results[0] if results else None
