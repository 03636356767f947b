"""Disks of simulated machines: small ones, and ones whose power can be cut."""

import fcntl
import os
import subprocess
from pathlib import Path

from tests.support.waiting import until

SMALL_MEGABYTES = 256
EXT4_MEGABYTES = 1024
_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = (2).to_bytes(4, "little")


class Disk:
    """A filesystem in memory, mounted in a folder."""

    def __init__(self, folder: Path) -> None:
        """Create and mount it. Raises `CalledProcessError` if the machine does not permit that."""
        folder.mkdir()
        self.folder = folder
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-t", "tmpfs", "-o", f"size={SMALL_MEGABYTES}m", "svc", self.folder)

    def close(self) -> None:
        """Unmount it, once the processes that used it have ended."""
        until(lambda: subprocess.run(["umount", self.folder], capture_output=True).returncode == 0, 10)


class Ext4Disk(Disk):
    """A filesystem in a file beside the folder."""

    def __init__(self, folder: Path) -> None:
        """Create and mount it. Also raises `FileNotFoundError` without `mkfs.ext4`."""
        self._image = folder.with_name(f"{folder.name}.ext4")
        with self._image.open("wb") as image:
            image.truncate(EXT4_MEGABYTES << 20)
        _run("mkfs.ext4", "-q", self._image)
        super().__init__(folder)

    def _mount(self) -> None:
        _run("mount", "-o", "loop", self._image, self.folder)

    def cut_power(self) -> None:
        """Lose all that was written and not synchronized, and fail further use."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _EXT4_IOC_SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(folder)

    def restore_power(self) -> None:
        """Mount it again, once the processes that used it have ended."""
        self.close()
        self._mount()


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)
