"""Deploys with ever more free space, so that the disk is full at each step in turn; then a read-only disk.

The data folder is on a small file system of its own (`tests/support/full_disk.py`). Fails if a deploy that
does not fit changes what is live, ends with another error, or leaves the service unusable.
"""

import errno
import os
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

from engine.errors import SvcError
from svc_tui.client import Client
from tests.svc_tui.hosted import Hosted, deploy, static_shop

PAGE = 4096


def write(root: Path, text: str) -> None:
    (root / "site" / "index.html").write_text(text)
    (root / "site" / "large.bin").write_bytes(os.urandom(5 * PAGE))


def fill(folder: Path, free_pages: int) -> Path:
    """Fill the file system of a folder up to so many pages; return the file to remove."""
    filler = folder / "filler"
    with filler.open("wb") as file:
        while (size := (os.statvfs(folder).f_bavail - free_pages) * PAGE) > 0:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
                break
            except OSError as error:
                if error.errno != errno.ENOSPC:  # The service took space meanwhile.
                    raise
    return filler


def rejected(client: Client, root: Path, hosted: Hosted, live: str, *reasons: str) -> bool:
    """Deploy; return whether that failed, for one of these reasons and without a change of what is live."""
    try:
        deploy(client, root)
    except SvcError as error:
        text = f"{error.message} {error.hint}".lower()
        assert any(reason in text for reason in reasons), text
        assert str(hosted.data) not in text
        assert hosted.get().text == live
        return True
    return False


def full(client: Client, root: Path, hosted: Hosted) -> int:
    """Deploy with more and more free space; return how many of the deploys failed."""
    for pages in count(0, 2):
        write(root, f"attempt {pages}")
        filler = fill(hosted.data.parent, pages)
        failed = rejected(client, root, hosted, "one", "space")
        filler.unlink()
        if not failed:
            assert hosted.get().text == f"attempt {pages}"
            return pages // 2
    raise AssertionError


def read_only(client: Client, root: Path, hosted: Hosted) -> None:
    """Deploy while a part of the data folder is read-only."""
    live = hosted.get().text
    for name in ("uploads", "unpacked"):
        write(root, name)
        place = str(hosted.data / name)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", place], check=True)
        failed = rejected(client, root, hosted, live, "read-only", "permission", "access")
        subprocess.run(["umount", place], check=True)
        assert failed, name
        deploy(client, root)
        live = hosted.get().text
        assert live == name


def main(data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = static_shop(Path(folder) / "shop")
        with Hosted(data) as hosted, hosted.claim() as client:
            deploy(client, root)
            failed = full(client, root, hosted)
            read_only(client, root, hosted)
        subprocess.run(["mount", "-o", "remount,ro", str(data.parent)], check=True)
        try:
            Hosted(data).stop()
        except SvcError as error:
            assert "read-only" in error.message.lower() and error.hint, error
        else:
            raise AssertionError("a service starts on a read-only folder")
        subprocess.run(["mount", "-o", "remount,rw", str(data.parent)], check=True)
        with Hosted(data) as hosted:
            assert hosted.get().text == "unpacked"
    print(f"whole, after {failed} full disks")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
