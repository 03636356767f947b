"""Prompts on the terminal, and values piped to stdin.

Questions are written to stderr, so stdout contains data only. Secrets are read without echo.
"""

import getpass
import sys
from collections.abc import Callable

from engine.errors import InvalidUsage, SvcError
from svc_tui.terminal import stderr

MAX_LINE_CHARS = 4096


def line(question: str, hint: str, default: str = "") -> str:
    """Ask for a line; an empty answer selects `default`. Raises `InvalidUsage` with the `hint`."""
    _require_terminal(question, hint)
    return _read_answer(question, default)


def confirm(question: str, *, yes: bool = False) -> None:
    """Ask for confirmation, unless `yes`. Raises `SvcError` for another answer, and `InvalidUsage`."""
    if yes:
        return
    _require_terminal(question, "Pass --yes.")
    if _read_answer(f"{question} [y/N]").lower() not in ("y", "yes"):
        raise SvcError("canceled; nothing was changed", "Answer y, or pass --yes.")


def secret(question: str, hint: str) -> str:
    """Ask for a secret without echo. Raises `InvalidUsage` with the `hint`."""
    _require_terminal(question, hint)
    try:
        return getpass.getpass(f"{question}: ")
    except EOFError as error:
        raise KeyboardInterrupt from error


def new_secret(question: str, hint: str, problem_of: Callable[[str], str]) -> str:
    """Ask for a new secret until `problem_of` returns "" for it and a second answer is the same.

    Raises `InvalidUsage` with the `hint`.
    """
    while True:
        first = secret(question, hint)
        problem = problem_of(first)
        if not problem and secret("again", hint) == first:
            return first
        stderr.warn(problem or "the passwords do not match")


def from_stdin() -> str:
    """Return the first line of stdin. Raises `SvcError` when it is empty, too long or not UTF-8."""
    data = sys.stdin.buffer.readline(MAX_LINE_CHARS + 1)
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidUsage("stdin is not valid UTF-8", "Pass the password as text.") from error
    if not text:
        raise InvalidUsage("stdin has no password", "Pass the password as one line.")
    if len(data) > MAX_LINE_CHARS:
        hint = "Pass the password as one line."
        raise InvalidUsage(f"the password on stdin exceeds {MAX_LINE_CHARS} bytes", hint)
    return text


def _read_answer(question: str, default: str = "") -> str:
    text = f"{question} [{default}]: " if default else f"{question}: "
    stderr.question(text)
    answer = sys.stdin.readline(MAX_LINE_CHARS)
    if not answer:
        raise KeyboardInterrupt
    return answer.strip() or default


def _require_terminal(question: str, hint: str) -> None:
    if not sys.stdin.isatty():
        raise InvalidUsage(f'cannot prompt for "{question}": stdin is not a terminal', hint)
