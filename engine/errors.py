"""The one shape of every error that a person reads.

Owns `SvcError`; each area has one subclass beside the code that raises it. A face (terminal, Console,
problem page) renders the fields; nothing here knows how.
"""


class SvcError(Exception):
    """Something went wrong that the user can understand and act upon.

    `message` says what happened and to which thing, `hint` what to do next (may be empty), `code` is the
    stable machine-readable kind (kebab-case). `public_message` is the message for those who have no business
    with this machine's paths, the clients of a service; the same one where nothing else is given.
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
        """The message, and below it the hint where there is one."""
        return f"{self.message}\n{self.hint}" if self.hint else self.message
