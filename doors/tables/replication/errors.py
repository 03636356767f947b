"""Errors of replicated tables."""

from engine.errors import SvcError


class ReplicationError(SvcError):
    """The tables cannot be read or changed now. Codes are those of the Door's problems."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint, code=code)


class Conflict(ReplicationError):
    """Another node wrote first; the transaction was not stored and can be repeated."""

    def __init__(self) -> None:
        super().__init__(
            "busy", "another node of the fleet wrote to the tables first; nothing was changed", "Try again."
        )


class CannotApply(Exception):
    """An entry of the log does not fit the local copy."""
