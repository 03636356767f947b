import sys

import pytest

from svc_tui.commands.deploy import _TerminalProgress
from svc_tui.terminal import stderr
from tests.svc_tui.terminal.test_prompt import Terminal


def test_upload_progress_replaces_its_line_and_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    stderr.set_color("never")
    progress = _TerminalProgress(4)
    with progress.upload_line:
        progress.uploading(1, 20_000_000)
        progress.uploading(13_000_000, 20_000_000)
    lines = terminal.getvalue().split("\r\x1b[2K")
    assert lines == ["", "  1 B of 19 MiB", "  12 MiB of 19 MiB", ""]
