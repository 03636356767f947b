"""Deploys and writes of rows while the disk fails at each of their operations in turn.

`… FOLDER FIRST DISTANCE`: one operation on a file of the service or of SQLite fails with EIO, the `FIRST` one
of a change, then one `DISTANCE` further. Fails if a change that failed is half done, if its error does not
name the disk, or if the service does not continue. Prints how many changes failed.
"""

import errno
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import apsw

from engine.errors import SvcError
from tests.svc_tui.hosted import Hosted, deploy, static_shop

EVENTS = {"open", "os.rename", "os.mkdir", "os.remove", "os.link", "os.rmdir", "os.listdir", "os.scandir"}


class Disk:
    """Counts the operations on files below a folder. One of them fails."""

    def __init__(self, folder: str) -> None:
        self._folder, self._lock = folder, threading.Lock()
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
                raise OSError(errno.EIO, os.strerror(errno.EIO), arguments[0])

        def synced(sync: Callable[[int], None], number: int) -> None:
            if self.touch("sync", Path(f"/proc/self/fd/{number}").readlink()):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(number)

        sys.addaudithook(hook)
        os.fsync, os.fdatasync = partial(synced, os.fsync), partial(synced, os.fdatasync)


def _closes() -> bool:
    """Return whether a connection closes. SQLite ignores errors then, but an exception would be raised."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_name.startswith("close"):
        frame = frame.f_back
    return frame is not None


def _failing(kind: str) -> Callable[..., Any]:
    def operate(file: "FailingFile", *arguments: Any) -> Any:
        if file.disk.touch(f"sqlite {kind}", file.path) and not _closes():
            raise apsw.IOError(os.strerror(errno.EIO))
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


def main(folder: Path, first: int, distance: int) -> None:
    data, root = folder / "data", static_shop(folder / "shop")
    disk, page, failures = Disk(str(data)), root / "site" / "index.html", 0
    vfs = FailingVfs(disk)
    disk.install()

    def deployed() -> None:
        deploy(client, root)

    def write(statement: str = "insert into t default values") -> Any:
        return client.call("POST", "/v1/projects/shop/sql", {"sql": statement, "write": True})["rows"]

    def state() -> tuple[int, int]:
        """Return the version that is served, and the number of rows."""
        return int(hosted.get().text), write("select count(*) n from t")[0]["n"]

    with Hosted(data) as hosted, hosted.claim() as client:
        page.write_text("1")
        deploy(client, root)
        write("create table t (id integer primary key)")
        for change, versions, rows in ((deployed, 1, 0), (write, 0, 1)):
            for number in range(first, first + distance * 1000, distance):
                before, error = state(), ""
                page.write_text(str(before[0] + 1))
                disk.failed, disk.remaining = "", number
                try:
                    change()
                except SvcError as failure:
                    error = f"{failure.code}: {failure.message} {failure.hint}"
                disk.remaining = 0
                assert "Input/output error" in error or not error, (disk.failed, error)
                assert str(data) not in error and not error.startswith("internal"), error
                done = before[0] + versions, before[1] + rows
                assert state() in ((before, done) if error else (done,)), (disk.failed, before, state())
                failures += bool(error)
                if not disk.failed:
                    break
        last = state()
    with Hosted(data) as hosted:
        assert hosted.get().text == str(last[0])
    del vfs
    print(f"whole, after {failures} failures")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
