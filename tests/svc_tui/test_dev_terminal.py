"""`svc dev` that is stopped while it starts."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from engine.http.sockets import bind
from engine.manifest.load import load
from svc_tui.dev.server import Settings
from svc_tui.dev.terminal import run
from tests.svc_tui.hosted import static_shop


def test_dev_stopped_while_it_starts_ends_without_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = load(static_shop(tmp_path / "shop"))

    async def scenario() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        await run(project, Settings([bind("localhost", 0)], tmp_path / "cache", "dev"))

    asyncio.run(scenario())
    printed = capsys.readouterr()
    assert "http://" not in printed.out and "error" not in printed.err
