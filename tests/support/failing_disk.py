"""A disk of which one operation fails: a hook of Python's operations on files, and a file system of SQLite.

Both belong to the process, so programs of their own use them.
"""

import errno
import os
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import apsw

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.link", "os.rmdir", "os.listdir", "os.scandir"}


class Disk:
    """Counts the operations on files below a folder. One of them fails."""

    def __init__(self, folder: str, error: int = errno.EIO) -> None:
        self._folder, self._lock, self.error = folder, threading.Lock(), error
        self.remaining, self.failed = 0, ""

    def touch(self, kind: str, path: object) -> bool:
        """Count an operation; return whether it fails."""
        if self.remaining <= 0 or not str(path).startswith(self._folder):
            return False
        with self._lock:
            self.remaining -= 1
            if not self.remaining:
                self.failed = f"{kind} {path}"
            return not self.remaining

    def install(self) -> None:
        """Observe operations of this process from now on."""

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in EVENTS and self.touch(event, arguments[0]):
                raise OSError(self.error, os.strerror(self.error), arguments[0])

        def synced(sync: Callable[[int], None], number: int) -> None:
            if self.touch("sync", Path(f"/proc/self/fd/{number}").readlink()):
                raise OSError(self.error, os.strerror(self.error))
            sync(number)

        sys.addaudithook(hook)
        os.fsync, os.fdatasync = partial(synced, os.fsync), partial(synced, os.fdatasync)


def _closes() -> bool:
    """Return whether a connection closes. SQLite ignores errors then, but an exception would be raised."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_name.startswith("close"):
        if frame.f_code is closing.__exit__.__code__:
            break
        frame = frame.f_back
    return frame is not None


def _failing(kind: str) -> Callable[..., Any]:
    def operate(file: "FailingFile", *arguments: Any) -> Any:
        if file.disk.touch(f"sqlite {kind}", file.path) and not _closes():
            kind_of_error = apsw.FullError if file.disk.error == errno.ENOSPC else apsw.IOError
            raise kind_of_error(os.strerror(file.disk.error))
        return getattr(apsw.VFSFile, kind)(file, *arguments)

    return operate


class FailingFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:
        super().__init__("unix", name, flags)
        self.disk, self.path = disk, name.filename() if isinstance(name, apsw.URIFilename) else name

    xWrite, xRead, xSync, xTruncate = map(_failing, ("xWrite", "xRead", "xSync", "xTruncate"))


class FailingVfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        super().__init__("failing", "unix", makedefault=True)
        self._disk = disk

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return FailingFile(self._disk, name, flags)
