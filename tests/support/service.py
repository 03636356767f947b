"""`svc serve` and the commands around it as processes with an `SVC_HOME` of their own."""

import io
import os
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from svc_tui import main
from tests.support.waiting import until

PASSWORD = "correct horse battery"
ANY_PORTS = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
START_SECONDS = 120.0
MANIFEST = '[project]\nname = "{}"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'


def svc() -> list[str]:
    return [sys.executable, "-m", "svc_tui"]


def environ_of(home: Path, cache: Path | None = None) -> dict[str, str]:
    """Return an environment without the user's settings; `SVC_HOME` is a new folder, with this cache."""
    home.mkdir()
    if cache is not None:
        (home / "cache").symlink_to(cache.resolve(), target_is_directory=True)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SVC_")}
    return {**inherited, "SVC_HOME": str(home), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


def static_project(root: Path, name: str = "shop") -> Path:
    """Create a project with one static resource `web` whose page is "one"."""
    (root / "site").mkdir(parents=True)
    (root / "svc.toml").write_text(MANIFEST.format(name))
    (root / "site" / "index.html").write_text("one")
    return root


def share_machine_code(data: Path, cache: Path) -> None:
    """Link the machine code of all tests to a service: it takes longer to compile than the tests take."""
    (cache / "compiled").mkdir(mode=0o700, parents=True, exist_ok=True)
    (data / "cache").mkdir(parents=True, exist_ok=True)
    (data / "cache" / "compiled").symlink_to((cache / "compiled").resolve(), target_is_directory=True)


def share_code(data: Path, cache: Path) -> None:
    """Link the machine code that components share in a cache to a service, but not their memories.

    What it removes stays in the cache.
    """
    (data / "cache" / "compiled").mkdir(mode=0o700, parents=True)
    for path in (cache / "compiled").glob("code-*.[cm]*"):
        (data / "cache" / "compiled" / path.name).symlink_to(path.resolve())


class Server:
    """`svc serve` on a data folder. `code` is the claim code of a new folder."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *options: str,
        control: int = 0,
        files: int = 0,
        cache: Path | None = None,
    ) -> None:
        """`files` is the limit of its open files, 0 for that of this process. `cache` has machine code."""
        self.folder = folder
        limits = (files, files) if files else resource.getrlimit(resource.RLIMIT_NOFILE)
        listen = ("--listen", "127.0.0.1:0", "--control", f"127.0.0.1:{control}")
        self.process = subprocess.Popen(
            [*svc(), "serve", "--data", str(folder), *listen, *options],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
        )
        assert self.process.stdout is not None
        late = threading.Timer(START_SECONDS, self.process.kill)
        late.start()
        try:
            addresses = [self.process.stdout.readline() for _ in range(2)]
        finally:
            late.cancel()
        if not addresses[1]:
            self.process.kill()
            raise AssertionError(f"svc serve did not start: {self.process.communicate()[1]}")
        self.control = addresses[0].split()[-1]
        self.port = int(addresses[1].rpartition(":")[2])
        if cache is not None:
            share_machine_code(folder, cache)

    def code(self) -> str:
        code = re.search(r"with the code ([a-z0-9-]+)", self.wait_for("with the code"))
        assert code is not None
        return code[1]

    def wait_for(self, text: str) -> str:
        """Return the next line of the log with a text."""
        assert self.process.stderr is not None
        return next(line for line in self.process.stderr if text in line)

    def get(self, path: str = "/", project: str = "shop") -> httpx.Response:
        host = {"host": f"web--{project}.localhost"}
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers=host, timeout=60)

    def restarted(self, environ: Mapping[str, str], *options: str) -> "Server":
        """Start a service on the same data folder and control port."""
        return Server(self.folder, environ, *options, control=int(self.control.rpartition(":")[2]))

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=60)
        return self.process.returncode


def run(
    project: Path, environ: Mapping[str, str], *arguments: str, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `svc` in a folder, in the process of the test.

    A process of its own would take a second of processor time to start, as the servers of the tests do.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - environ.keys():
            patch.delenv(name)
        for name, value in environ.items():
            patch.setenv(name, value)
        patch.chdir(project)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = main.run([*arguments])
    printed = [stream.detach().getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(["svc", *arguments], code, *printed)


def run_process(
    project: Path, environ: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run `svc` as a process in a folder."""
    return subprocess.run(
        [*svc(), *arguments], cwd=project, env=environ, capture_output=True, text=True, timeout=120
    )


def prepare(project: Path, environ: Mapping[str, str], *arguments: str, text: str = "") -> str:
    """Run `svc` in a folder; expect success and return what it prints."""
    done = run(project, environ, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


def logged(project: Path, environ: Mapping[str, str], text: str, *options: str) -> str:
    """Return the log once it has a text: records are written in batches."""

    def log() -> str:
        found = prepare(project, environ, "logs", *options)
        return found if text in found else ""

    return until(log)


def login(server: Server, project: Path, environ: Mapping[str, str], code: str = "") -> None:
    """Claim a new service and save the session in `SVC_HOME`."""
    claim = ("--user", "ann", "--claim", code or server.code(), "--password-stdin")
    prepare(project, environ, "login", server.control, *claim, text=PASSWORD)
