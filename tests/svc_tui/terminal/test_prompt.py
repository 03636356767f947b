import getpass
import io
import sys

import pytest

from engine.errors import InvalidUsage, SvcError
from svc_tui.client.credentials import password_problem
from svc_tui.terminal import prompt, stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["\n", "n\n", "no\n", "x\n"])
def test_confirm_of_anything_but_yes_fails_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(SvcError, match="canceled; nothing was changed") as exc_info:
        prompt.confirm("drop users?")
    assert stderr.exit_code(exc_info.value) == 1


@pytest.mark.parametrize("answer", ["y\n", "Yes\n"])
def test_confirm_of_yes_returns(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    prompt.confirm("drop users?")


def test_confirm_without_a_terminal_asks_for_yes_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(InvalidUsage) as exc_info:
        prompt.confirm("drop users?")
    assert exc_info.value.hint == "Pass --yes." and "stdin is not a terminal" in exc_info.value.message


def test_new_secret_asks_again_for_the_secret_that_is_too_short_or_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["short", "long enough", "other words", "long enough", "long enough"])
    monkeypatch.setattr(getpass, "getpass", lambda question: next(answers))
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert prompt.new_secret("password", "Pass it.", password_problem) == "long enough"
    err = capsys.readouterr().err
    assert "the password has 5 characters; at least 10 are required" in err
    assert "the passwords do not match" in err
