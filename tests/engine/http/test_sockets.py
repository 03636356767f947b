import socket
import subprocess
import sys

import pytest

from engine.http.sockets import bind_reuseport

PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4000))
from engine.http.sockets import raise_fd_limit
raise_fd_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_raise_fd_limit_uses_hard_limit() -> None:
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert process.stdout == "(4000, 4000)\n"


def test_shared_sockets_never_reset_an_early_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    listening: list[socket.socket] = []
    listen = socket.socket.listen

    def recorded(opened: socket.socket, backlog: int) -> None:
        listen(opened, backlog)
        listening.append(opened)

    monkeypatch.setattr(socket.socket, "listen", recorded)
    sets = bind_reuseport("127.0.0.1", 0, 2)
    assert listening == [each for group in sets for each in group]  # A closed one resets its connections.
    for each in listening:
        each.close()
