"""Commands, priority and limits of processes and threads that work for projects beside the service."""

import os
import resource
import sys
import threading
from contextlib import suppress
from pathlib import Path

_GRACE_SECONDS = 5
"""CPU time between the signal for a final limit and SIGKILL."""
_NICE_OF_THREADS, _MAX_NICE = 5, 19


def python_module(name: str) -> list[str]:
    """Return the command that runs a module by this Python, which looks for none in the current folder."""
    return [sys.executable, "-I" if sys.flags.isolated else "-P", "-m", name]


def step_back(niceness: int) -> None:
    """Lower the priority of this process, for processors and for memory, and write no core file."""
    os.nice(niceness)
    with suppress(OSError):  # Linux only. If memory gets scarce, the kernel ends this process first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def yield_to_loop() -> None:
    """Lower the priority of this thread, so that the event loop runs first (Linux only: nice(2))."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        nice = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(_MAX_NICE, nice + _NICE_OF_THREADS))


def limit(cpu_seconds: int, memory_bytes: int, *, final: bool = False) -> None:
    """Limit the CPU time of this process since its start, and its writable memory.

    Beyond the first, SIGXCPU ends the process. Beyond the second, allocations fail. The second limit of macOS
    does not count mapped memory. A `final` limit cannot be raised again.
    """
    for kind, most, last in (
        (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + _GRACE_SECONDS),
        (resource.RLIMIT_DATA, memory_bytes, memory_bytes),
    ):
        _, hard = resource.getrlimit(kind)
        with suppress(ValueError, OSError):
            soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (soft, last if final and soft == most else hard))
