"""Login dialog."""

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.widgets import Input

from screens.form import Field, Form, require_filled

CODE_WANTED = "the service has no owner yet; `svc serve` printed a claim code when it started"
Claimed = Callable[[str], bool]
"""Returns whether the service at a URL has an owner; raises `SvcError`."""
Enter = Callable[[str, str, str, str | None], str]
"""Logs in with URL, user, password and claim code, and returns the service key; raises `SvcError`."""


class LoginScreen(Form[str]):
    """Asks for URL, user and password; returns the key of the service."""

    TITLE_TEXT: ClassVar[str] = "Log in to a service"
    DONE: ClassVar[str] = "log in"

    def __init__(self, is_claimed: Claimed, log_in: Enter, url: str = "") -> None:
        super().__init__()
        self._is_claimed, self._log_in = is_claimed, log_in
        self._url = url

    def fields(self) -> ComposeResult:
        """Yield the fields; the claim code is hidden until it is needed."""
        yield Field("address", "url", self._url, example="https://control.example.com")
        yield Field("user name", "user")
        yield Field("password", "password", secret=True)
        code = Field("claim code", "code")
        code.display = False
        yield code

    def on_mount(self) -> None:
        """Move the focus to the first empty field."""
        for field in self.query(Input):
            if not field.value:
                field.focus()
                return

    async def submit(self) -> str:
        """Log in. Show the claim code field if the service has no owner."""
        url, user, password = self.value("url").strip(), self.value("user").strip(), self.value("password")
        require_filled([("address", url), ("user name", user), ("password", password)])
        is_claimed = await asyncio.to_thread(self._is_claimed, url)
        code = self.query_one("#code", Input)
        assert code.parent is not None
        if not is_claimed and not code.value:
            code.parent.display = True
            code.focus()
            require_filled([(f"claim code ({CODE_WANTED})", "")])
        claim = None if is_claimed else code.value.strip()
        return await asyncio.to_thread(self._log_in, url, user, password, claim)
