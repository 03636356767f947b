"""`svc dev` that is stopped while it starts."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from engine.control.discovery import ControlEndpoint, publish_endpoint
from engine.files.data_dir import DATA_DIR
from engine.http.sockets import bind
from engine.manifest.load import load
from svc_tui.dev.server import Settings
from svc_tui.dev.terminal import run
from tests.support.service import environ_of
from tests.support.service import run as run_svc
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


@pytest.mark.parametrize("serves", [True, False])
def test_dev_at_a_port_in_use_names_the_process_that_serves_the_project(tmp_path: Path, serves: bool) -> None:
    project, environ = static_shop(tmp_path / "shop"), environ_of(tmp_path / "home")
    if serves:
        publish_endpoint(project / DATA_DIR, ControlEndpoint("http://127.0.0.1:1", "token", os.getpid()))
    sockets = bind("localhost", 0)
    port = sockets[0].getsockname()[1]
    ended = run_svc(project, environ, "dev", "--port", str(port))
    for each in sockets:
        each.close()
    other = f"; the Console or another svc dev (process {os.getpid()}) serves this project" if serves else ""
    assert ended.returncode == 1
    assert f"error: port {port} is in use by another program{other}\n" in ended.stderr
