"""A service that is killed with all its processes, also during its start, and started again."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from svc_tui.client import Client
from tests.support.service import ANY_PORTS, PASSWORD, START_SECONDS, environ_of
from tests.support.waiting import until
from tests.svc_tui.hosted import deploy

STARTER = """
import json, os, sys
import svc_tui.commands.serve, svc_tui.serve.server
{}
from svc_tui.main import main
for line in sys.stdin:
    sys.argv = ["svc", *json.loads(line)]
    if (pid := os.fork()) == 0:
        os.setsid()
        for number, name in enumerate((os.devnull, "out", "log")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
        main()
        sys.exit()
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print(pid, flush=True)
"""
"""Starts services one after another, and prints the id of each process when it begins and when it has ended.

Each is a copy of this process, which has imported the service: on a machine that is busy, that takes most of
the time of a start.
"""
_CODE = r"with the code ([a-z0-9-]+)[^a-z0-9-]"


class KilledService:
    """A service whose data is in the folder `data` of another one. `token` is that of its owner."""

    def __init__(self, root: Path, options: Sequence[str], preamble: str = "") -> None:
        """`preamble` is code that changes the service."""
        self.root, self.data, self.log = root, root / "data", root / "log"
        self.control = self.token = self.public = ""
        self.started = 0.0
        """When the process of the last start began."""
        self._options, self._pid = options, 0
        self._starter = subprocess.Popen(
            [sys.executable, "-c", STARTER.format(preamble)],
            env=environ_of(root / "home"),
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, alive: float = 1.0, *options: str) -> bool:
        """Start, and return True. If `alive` is less than 1, wait for that part of 2 s, and return False."""
        assert self._starter.stdin is not None and self._starter.stdout is not None
        arguments = ["serve", "--data", str(self.data), *ANY_PORTS, *self._options, *options]
        (self.root / "out").write_text("")
        self._starter.stdin.write(json.dumps(arguments) + "\n")
        self._starter.stdin.flush()
        self._pid, self.started = int(self._starter.stdout.readline()), time.monotonic()
        if alive < 1.0:
            time.sleep(2 * alive)
            return False
        try:
            until(lambda: (self.root / "out").read_text().count("\n") >= 2, START_SECONDS)
        except AssertionError:
            raise AssertionError(f"the service did not start: {self.log.read_text()}") from None
        lines = (self.root / "out").read_text().splitlines()
        self.control = lines[0].split()[-1]
        self.public = f"http://127.0.0.1:{lines[1].rpartition(':')[2].strip()}"
        return True

    def kill(self) -> float:
        """Kill the service with all its processes, and return when."""
        assert self._starter.stdout is not None
        os.killpg(self._pid, signal.SIGKILL)
        killed = time.monotonic()
        assert int(self._starter.stdout.readline()) == self._pid
        self._pid = 0
        return killed

    def close(self) -> None:
        """Kill the service if it runs, and end what starts it."""
        if self._pid:
            self.kill()
        self._starter.communicate()

    def deploy(self, project: Path) -> None:
        """Start and claim a new service, and deploy a project."""
        self.start()
        until(lambda: re.search(_CODE, self.log.read_text()) is not None)
        claim = {"code": re.findall(_CODE, self.log.read_text())[0], "user": "ann", "password": PASSWORD}
        with Client(self.control, "") as client:
            self.token = client.call("POST", "/v1/claim", claim)["token"]
        with Client(self.control, self.token) as client:
            deploy(client, project)
