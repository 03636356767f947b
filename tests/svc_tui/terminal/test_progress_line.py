import io
import sys

import pytest
from rich.console import Console

from svc_tui.commands.deploy import _TerminalProgress
from svc_tui.deploy.format import DeployProgress
from svc_tui.terminal import stderr, stdout
from tests.svc_tui.terminal.test_prompt import Terminal


def test_upload_progress_replaces_its_line_and_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    stderr.set_color("never")
    progress = _TerminalProgress()
    with progress.upload_line:
        progress(DeployProgress("upload", "1 B of 19 MiB", transient=True))
        progress(DeployProgress("upload", "12 MiB of 19 MiB", transient=True))
    lines = terminal.getvalue().split("\r\x1b[2K")
    assert lines == ["", "  1 B of 19 MiB", "  12 MiB of 19 MiB", ""]


def test_count_replaces_the_one_before_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["web2: files: 1 of 3 done", "web2: files: 2 of 3 done; " + "x" * 300, "api: files: 1 of 3 done"]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(stderr, "_console", Console(file=terminal, width=40, force_terminal=True))
    for text in texts:
        stderr.progress(text)
    stdout.line("another line")
    stderr.progress(texts[2])
    screen = terminal.getvalue()
    assert screen.count("\x1b[1A\x1b[2K") == 1 and screen.count("\n") == 4
    assert screen.index("1 of 3") < screen.index("\x1b[1A\x1b[2K") < screen.index("2 of 3") and "…" in screen
    pipe = io.StringIO()
    monkeypatch.setattr(stderr, "_console", Console(file=pipe, width=40))
    for text in texts[:2]:
        stderr.progress(text)
    assert "\x1b" not in pipe.getvalue() and "1 of 3" in pipe.getvalue()
