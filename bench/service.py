"""A `svc serve` in its own process, and a project whose two versions it hosts in turn."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.processes import ROOT
from engine.manifest.load import load
from svc_tui.client import Client
from svc_tui.deploy import uploader
from svc_tui.deploy.format import DeployProgress
from svc_tui.user_home import Home

DOMAIN = "apps.example"
HOST = f"front--deploys.{DOMAIN}"
PASSWORD = "a password hard to guess"
_MANIFEST = """[project]
name = "deploys"

[resource.front]
lane = "static"
public = true
output = "site"
spa = true
mounts = {{ "/v{version}/*" = "api" }}

[resource.api]
lane = "js"
workdir = "api"
env = {{ VERSION = "{version}" }}
"""
_API = """
export default {
  async fetch(request) {
    return new Response(`api ${process.env.VERSION}`);
  },
};
"""


def silent(event: DeployProgress) -> None:
    """Ignore the progress of a deploy."""


class Serving:
    """The service on a data folder, or a program of its kind. `start` may be called again after its end.

    `log` is the file of its messages, beside the data folder.
    """

    def __init__(self, data: Path, *options: str, program: str = "svc_tui") -> None:
        self.data = data
        self.log = data.with_name(f"{data.name}.log")
        self._program = program
        self._options = options
        self.process: subprocess.Popen[str] | None = None
        self.port, self.control, self.token = 0, "", ""

    def start(self) -> None:
        """Start it, wait until it serves, and claim it the first time."""
        command = [sys.executable, "-m", self._program, "serve"]
        command += ["--data", str(self.data), "--domain", DOMAIN]
        command += ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", *self._options]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.data.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, env=environ, stdout=subprocess.PIPE, stderr=log, text=True
            )
        output = self.process.stdout
        assert output is not None
        self.control = output.readline().split()[-1]
        found = re.search(r":(\d+)$", output.readline().strip())
        assert found is not None
        self.port = int(found[1])
        if not self.token:
            while not (code := re.search(r"with the code ([a-z0-9-]+)", self.log.read_text())):
                time.sleep(0.01)
            payload = {"code": code[1], "user": "bench", "password": PASSWORD}
            with Client(self.control, "") as client:
                self.token = client.call("POST", "/v1/claim", payload)["token"]

    def client(self) -> Client:
        """Return a client with a session."""
        return Client(self.control, self.token)

    def kill(self) -> None:
        """End it at once, wherever it is."""
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        """Stop the service gracefully."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=30)


def write_project(folder: Path) -> Path:
    """Write the project; `deploy` gives it its version."""
    root = folder / "deploys"
    (root / "site").mkdir(parents=True)
    (root / "api" / "src").mkdir(parents=True)
    (root / "api" / "src" / "index.js").write_text(_API)
    return root


@contextmanager
def hosted(project: Path, *options: str) -> Iterator[int]:
    """Deploy a project to a service of its own, and yield the port of its applications."""
    with tempfile.TemporaryDirectory(prefix="svc-bench-", ignore_cleanup_errors=True) as data:
        serving = Serving(Path(data) / "data", *options)
        serving.start()
        try:
            with serving.client() as client:
                deploy(client, bundle(project))
            yield serving.port
        finally:
            serving.stop()


def build(root: Path, version: int) -> uploader.Bundle:
    """Build a version."""
    (root / "svc.toml").write_text(_MANIFEST.format(version=version))
    (root / "site" / "index.html").write_text(f"front {version}")
    return bundle(root)


def bundle(root: Path) -> uploader.Bundle:
    """Build a project for deploying."""
    cache = Home.from_environment(os.environ).cache()
    return asyncio.run(uploader.build(load(root), cache, silent))


def deploy(client: Client, bundle: uploader.Bundle) -> dict[str, Any]:
    """Deploy what was built."""
    planned = uploader.plan(client, bundle)
    uploader.upload(client, bundle, planned["missing"], silent)
    return uploader.deploy(client, bundle, planned["revision"], silent, commit="", message="", allow=False)


def expected(version: int, path_version: int) -> str:
    """Return what a version answers to `/v<path_version>/x`: its API if it has it mounted there."""
    return f"api {version}" if version == path_version else f"front {version}"


def common_version(answers: dict[int, str]) -> int | None:
    """Return the version that gave all of these answers (by path), `None` where there is no such."""
    for version in (1, 2):
        if all(answer == expected(version, path) for path, answer in answers.items()):
            return version
    return None
