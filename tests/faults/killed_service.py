"""A service that is killed with all its processes, also during its start, and started again."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from svc_tui.client import Client
from tests.support.service import ANY_PORTS, PASSWORD, START_SECONDS, environ_of
from tests.support.waiting import until
from tests.svc_tui.hosted import deploy

PROGRAM = "from svc_tui.main import main\nmain()\n"
_CODE = r"with the code ([a-z0-9-]+)[^a-z0-9-]"


class KilledService:
    """A service whose data is in the folder `data` of another one. `token` is that of its owner."""

    def __init__(self, root: Path, options: Sequence[str], program: str = PROGRAM) -> None:
        self.root, self.data, self.log = root, root / "data", root / "log"
        self.environ = environ_of(root / "home")
        self.control = self.token = self.public = ""
        self.started = 0.0
        """When the process of the last start began."""
        self._options, self._program = options, program
        self.start()

    def start(self, alive: float = 1.0, *options: str) -> bool:
        """Start, and return True. If `alive` is less than 1, wait for that part of 2 s, and return False."""
        command = [sys.executable, "-c", self._program, "serve", "--data", str(self.data), *ANY_PORTS]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *self._options, *options],
                env=self.environ,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.started = time.monotonic()
        if alive < 1.0:
            time.sleep(2 * alive)
            return False
        late = threading.Timer(START_SECONDS, self.process.kill)
        late.start()
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(2)]
        late.cancel()
        assert lines[1], self.log.read_text()
        self.control = lines[0].split()[-1]
        self.public = f"http://127.0.0.1:{lines[1].rpartition(':')[2].strip()}"
        return True

    def kill(self) -> float:
        """Kill the service with all its processes, and return when."""
        os.killpg(self.process.pid, signal.SIGKILL)
        killed = time.monotonic()
        self.process.wait()
        return killed

    def deploy(self, project: Path) -> None:
        """Claim the new service, and deploy a project."""
        until(lambda: re.search(_CODE, self.log.read_text()) is not None)
        claim = {"code": re.findall(_CODE, self.log.read_text())[0], "user": "ann", "password": PASSWORD}
        with Client(self.control, "") as client:
            self.token = client.call("POST", "/v1/claim", claim)["token"]
        with Client(self.control, self.token) as client:
            deploy(client, project)
