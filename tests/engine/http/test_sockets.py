import subprocess
import sys

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
