"""Process that computes one operation after another, within limits, until its stdin is closed.

A request is a line of JSON, `[path, bytes of the body, seconds, bytes of memory]`, and the body. A response
is a line, `[status, CPU time in nanoseconds, bytes of the body]`, and the body.
"""

import json
import math
import sys
import time

from doors.crypto.job import CryptoProblem, Members, encode
from doors.crypto.operations import OPERATIONS
from engine.confinement import limit, step_back
from engine.door import DoorResponse

NICENESS = 5
_OWN_BYTES = 256 << 20
"""Writable memory beside that for the parameters of an operation: the program, and copies of the data."""


def main() -> None:
    """Answer the requests on stdin."""
    step_back(NICENESS)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        path, size, seconds, memory = json.loads(line)
        body = source.read(size)
        limit(math.ceil(time.process_time()) + seconds, _OWN_BYTES + memory)
        began = time.process_time_ns()
        try:
            response = DoorResponse(200, encode(OPERATIONS[path](Members(body)).run()))
        except CryptoProblem as problem:
            response = problem.response()
        head = json.dumps([response.status, time.process_time_ns() - began, len(response.body)])
        sink.write(f"{head}\n".encode() + response.body)
        sink.flush()


if __name__ == "__main__":
    main()
