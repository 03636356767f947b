"""Base class of every error that is shown to a user.

Each area has a subclass beside the code that raises it. Terminal, Console and problem pages render it.
"""


class SvcError(Exception):
    """An error that the user can understand and act upon.

    `message` names the object and its state, `hint` the next step (may be empty). `code` is a stable
    machine-readable kind in kebab case. `public_message` is the message without paths of this machine, for
    clients of a service (default: `message`).
    """

    code = "failed"

    def __init__(
        self, message: str, hint: str = "", *, code: str | None = None, public_message: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.public_message = public_message or message
        if code is not None:
            self.code = code

    @property
    def text(self) -> str:
        """The message, and the hint below it if there is one."""
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class InvalidUsage(SvcError):
    """Wrong arguments or options of a command."""

    code = "usage"


def internal_error(message: str) -> SvcError:
    """Return the error that users see instead of an unexpected exception, which the caller logs."""
    return SvcError(message, "This is an error in svc. Its log has the details.", code="internal")
