"""The only reader of what a person types: questions on the terminal, and the first line of stdin.

Questions go to stderr, so that stdout stays data. What is typed as a secret is not shown.
"""

import getpass
import sys

from engine.errors import SvcError
from svc_tui.terminal import stderr

MAX_LINE_CHARS = 4096
"""Characters of a line."""
_LOGIN = "Give --user and --password-stdin, or SVC_TOKEN."


class NotInteractive(SvcError):
    """A question would have to be asked, and there is no terminal."""

    code = "usage"


def line(question: str, default: str = "") -> str:
    """Ask for a line; empty means `default`. Raises `NobodyThere`."""
    _person(question, _LOGIN)
    return _typed(question, default)


def _typed(question: str, default: str = "") -> str:
    shown = f"{question} [{default}]: " if default else f"{question}: "
    stderr.question(shown)
    typed = sys.stdin.readline(MAX_LINE_CHARS)
    if not typed:
        raise KeyboardInterrupt
    return typed.strip() or default


def confirm(question: str) -> bool:
    """Ask whether to go on; only a clear yes is one. Raises `NobodyThere`."""
    _person(question, "Give --yes if that is meant.")
    return _typed(f"{question} [y/N]").lower() in ("y", "yes")


def secret(question: str) -> str:
    """Ask for a secret. Raises `NobodyThere`."""
    _person(question, _LOGIN)
    try:
        return getpass.getpass(f"{question}: ")
    except EOFError as error:
        raise KeyboardInterrupt from error


def new_secret(question: str) -> str:
    """Ask for a secret twice. Raises `NobodyThere`, and `SvcError` when the two differ."""
    first = secret(question)
    if secret("again") != first:
        raise SvcError("the two are not the same", "Try again.", code="usage")
    return first


def from_stdin() -> str:
    """Return the first line of stdin, without its end."""
    data = sys.stdin.buffer.readline(MAX_LINE_CHARS + 1)
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise SvcError("what stdin has is not UTF-8", "Pass the password as text.", code="usage") from error
    if not text or len(data) > MAX_LINE_CHARS:
        raise SvcError("stdin has no password", "Pass it as one line.", code="usage")
    return text


def _person(question: str, hint: str) -> None:
    if not sys.stdin.isatty():
        raise NotInteractive(f"there is no terminal to ask on: {question}", hint)
