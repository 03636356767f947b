"""The system's keyring, as far as it works: tokens of sessions by service.

Owns that a keyring that fails, or waits for somebody who is not there, keeps no command from going on.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
SERVICE = "svc"
TIMEOUT_SECONDS = 20.0
"""How long a keyring may take; it may be asking a person to unlock it."""
_LEAST_PRIORITY = 1
"""Of a backend that keeps secrets secret; those that do not say less."""


class Keyring:
    """Gets and keeps secrets; every method gives up after `seconds`."""

    def __init__(self, seconds: float = TIMEOUT_SECONDS) -> None:
        self._seconds = seconds

    def save(self, name: str, secret: str) -> bool:
        """Keep a secret; whether it is there now."""

        def work(backend: Any) -> bool:
            backend.set_password(SERVICE, name, secret)
            return bool(backend.get_password(SERVICE, name) == secret)

        return bool(self._try(work))

    def get(self, name: str) -> str | None:
        """Return a secret, if it can be had."""
        found = self._try(lambda backend: backend.get_password(SERVICE, name))
        return found if isinstance(found, str) else None

    def delete(self, name: str) -> None:
        """Remove a secret, if it can be done."""
        self._try(lambda backend: backend.delete_password(SERVICE, name))

    def _try(self, work: Callable[[Any], T]) -> T | None:
        done: list[T] = []

        def run() -> None:
            # Backends are others' code and raise what they like; what is to be done is the same.
            try:
                import keyring

                backend = keyring.get_keyring()
                if backend.priority >= _LEAST_PRIORITY:
                    done.append(work(backend))
            except Exception:
                return

        thread = threading.Thread(target=run, name="keyring", daemon=True)
        thread.start()
        thread.join(self._seconds)
        return done[0] if done else None
