"""Deploys, writes of rows and rollbacks while the disk fails at each of their operations in turn.

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


def has_failed(disk: Disk, hosted: Hosted, change: Callable[[], Any], number: int) -> bool | None:
    """Change something while an operation fails; return whether the change failed, None if none did."""
    disk.failed, disk.remaining = "", number
    try:
        change()
        return False if disk.failed else None
    except SvcError as error:
        text = f"{error.message} {error.hint}"
        assert "Input/output error" in text and error.code != "internal", (disk.failed, text)
        assert str(hosted.data) not in text, text
        return True
    finally:
        disk.remaining = 0


def main(folder: Path, first: int, distance: int) -> None:
    data, root = folder / "data", static_shop(folder / "shop")
    disk = Disk(str(data))
    vfs = FailingVfs(disk)
    disk.install()
    page = root / "site" / "index.html"
    (root / "tables").mkdir()
    (root / "tables" / "1.sql").write_text("create table t (id integer primary key);")

    def deployed() -> None:
        page.write_text(str(int(hosted.get().text) + 1))
        deploy(client, root)

    def rolled_back() -> None:
        history = client.call("GET", "/v1/projects/shop/deployments")
        body = {"deployment": history["deployments"][1]["id"], "revision": history["revision"]}
        client.call("POST", "/v1/projects/shop/rollback", {**body, "message": ""})

    def write(statement: str = "insert into t default values") -> Any:
        return client.call("POST", "/v1/projects/shop/sql", {"sql": statement, "write": True})["rows"]

    def state() -> tuple[int, int]:
        """Return the version that is served, and the number of rows."""
        return int(hosted.get().text), write("select count(*) n from t")[0]["n"]

    failures = 0
    with Hosted(data) as hosted, hosted.claim() as client:
        page.write_text("1")
        deploy(client, root)
        for change, wanted in ((deployed, (1, 0)), (write, (0, 1)), (rolled_back, None)):
            for number in range(first, 1000, distance):
                before = state()
                failed = has_failed(disk, hosted, change, number)
                after = state()
                if wanted is not None:
                    done = (before[0] + wanted[0], before[1] + wanted[1])
                    assert after in ((before, done) if failed else (done,)), (disk.failed, before, after)
                failures += bool(failed)
                if failed is None:
                    break
        last = state()
    with Hosted(data) as hosted:
        assert hosted.get().text == str(last[0])
    del vfs
    print(f"whole, after {failures} failures")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
