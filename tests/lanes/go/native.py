"""A program run natively, as `go run .` finds its library: by the workspace that the lane has left."""

import http.client
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from lanes.go.toolchain import Go
from tests.lanes.go.conftest import Module, Reply


@contextmanager
def running(module: Module, go: Go) -> Iterator[int]:
    """Run a program on a free port; return that."""
    process = subprocess.Popen(
        [go.program, "run", "."],
        cwd=module.workdir,
        env={**os.environ, "ADDR": "127.0.0.1:0", "GREETING": "hello"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        said = re.search(r"listening on http://127\.0\.0\.1:(\d+)/", process.stderr.readline())
        assert said
        yield int(said[1])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        with process:
            pass


def natively(
    port: int,
    target: str,
    method: str = "GET",
    body: Sequence[bytes] = (),
    fields: Sequence[tuple[str, str]] = (),
) -> Reply:
    """Ask it something, over HTTP."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("host", "api.localhost")
        for name, value in fields:
            connection.putheader(name, value)
        sized = any(name == "content-length" for name, _ in fields)
        if body and not sized:
            connection.putheader("transfer-encoding", "chunked")
        connection.endheaders()
        for piece in body:
            connection.send(piece if sized else b"%x\r\n%s\r\n" % (len(piece), piece))
        if body and not sized:
            connection.send(b"0\r\n\r\n")
        answer = connection.getresponse()
        chunks, times = [], []
        while chunk := answer.read1(1 << 16):
            chunks.append(chunk)
            times.append(time.monotonic())
        return Reply(
            None,  # type: ignore[arg-type]
            answer.status,
            {},
            chunks,
            True,
            [],
            [(name.lower(), value) for name, value in answer.getheaders()],
            times,
        )
