"""Limits of the compiler process, which compiles code of strangers.

The process applies them to itself before it reads a component. Measured on the largest builds of
js and go: 30 s of CPU time, 1.9 GiB for a component of 200 MB.
"""

import os
import sys
import threading

from engine.confinement import limit, step_back

CPU_SECONDS = 240
"""Maximum CPU time of a compilation, over all threads."""
WALL_SECONDS = 900
"""Maximum duration of a compilation, for a busy machine."""
MEMORY_BYTES = 3 << 30
"""Maximum writable memory. Enforced on Linux; the limit of macOS does not count mapped memory."""
MAX_COMPONENT_BYTES = 256 << 20
MAX_CODE_BYTES = 512 << 20
"""Maximum size of a component, and of its machine code."""
CONCURRENT = 2
"""Maximum compilations at once in a process of svc. Each uses all processors, at low priority."""
NICENESS = 10
EXIT_CODE_TOO_LARGE = 5
"""Exit status of the compiler process for machine code above its limit."""


def confine(cpu_seconds: int, memory_bytes: int) -> None:
    """Apply the limits to this process, and end it when its parent process ends.

    The parent holds the other end of stdin, which is closed with it.
    """
    step_back(NICENESS)
    limit(cpu_seconds, memory_bytes, final=True)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
