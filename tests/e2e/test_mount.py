import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.dev_server import dev_server

pytestmark = pytest.mark.slow
TEXT = """\
[project]
name = "shop"

# The page.
[resource.front]
lane = "static"
public = true
workdir = "front"
output = "."

[resource.manual]  # private
lane = "static"
workdir = "manual"
output = "."
"""


def svc(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "svc_tui", "-C", str(project), "mount", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_mount_add_and_rm_take_effect_while_dev_runs(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for folder, text in (("front", "the page"), ("manual/manual", "the manual")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.txt").write_text(text)
    (tmp_path / "svc.toml").write_text(TEXT)
    with dev_server(tmp_path, tmp_path_factory.mktemp("home")) as server:
        assert server.get("/manual/a.txt").status_code == 404
        result = svc(tmp_path, "add", "front", "/manual/*", "manual")
        assert result.returncode == 0 and '+mounts = { "/manual/*" = "manual" }' in result.stdout
        assert (
            server.until("/manual/a.txt", lambda response: response.status_code == 200).text == "the manual"
        )
        assert server.get("/a.txt").text == "the page"
        assert svc(tmp_path, "list").stdout == "resource\tpattern\ttarget\nfront\t/manual/*\tmanual\n"
        assert svc(tmp_path, "rm", "front", "/manual/*").returncode == 0
        server.until("/manual/a.txt", lambda response: response.status_code == 404)
    assert (tmp_path / "svc.toml").read_text() == TEXT
