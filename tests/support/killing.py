"""Processes that kill themselves after the n-th change of a folder on disk."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTHING_ON_DISK = {"blocking_calls.py", "errors.py", "protocols.py", "verifying_reader.py"}


def die_after(changes: int, root: Path, *code: str) -> None:
    """Kill this process at the first line of some code after so many changes below `root`.

    `code` has folders of the repository. Threads that run already are not observed.
    """
    remaining, last = changes, state(root)
    folders = {str(ROOT / folder) for folder in code}

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal remaining, last
        path, _, name = frame.f_code.co_filename.rpartition("/")
        if path not in folders or name in NOTHING_ON_DISK:
            return None
        if event == "line" and (now := state(root)) != last:
            last = now
            remaining -= 1
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    threading.settrace(trace)
    sys.settrace(trace)


def state(folder: Path | str) -> list[tuple[str, int, int, int]]:
    """Return path, inode, size and change time of every file below a folder."""
    result = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            about = entry.stat(follow_symlinks=False)
            result.append((entry.path, about.st_ino, about.st_size, about.st_mtime_ns))
            if entry.is_dir(follow_symlinks=False):
                result += state(entry.path)
    return result


def forked(task: Callable[[], None]) -> int:
    """Run a task in a forked process; return its exit code, negative after a signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            task()
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
