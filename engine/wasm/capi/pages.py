"""Mapped pages of this process, by address: mmap(2), mprotect(2), and /proc/self/pagemap.

All sizes and addresses are in bytes and multiples of the page size. Functions raise OSError.
"""

import ctypes
import errno
import mmap
import os
import re
from resource import RUSAGE_SELF, getrusage

from engine.wasm.capi.wasmtime import declare

PAGE_BYTES = mmap.PAGESIZE
_MAP_FIXED = 0x10
_MADV_DONTNEED, _MADV_NOHUGEPAGE = 4, 15
_FAILED = ctypes.c_void_p(-1).value
_P, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_ENTRY_BYTES = 8
_PRESENT, _SWAPPED, _OF_FILE = 0x80, 0x40, 0x20
"""Bits in the last byte of an entry of the page map."""
_IS_WRITTEN = bytes(bool(bits & (_PRESENT | _SWAPPED)) and not bits & _OF_FILE for bits in range(256))
_WRITTEN_RUN = re.compile(b"\x01+")

# Calls of microseconds hold the GIL. To unmap memory takes long if much of it was touched.
_holding_gil = ctypes.PyDLL(None, use_errno=True)
_releasing_gil = ctypes.CDLL(None, use_errno=True)
_mmap = declare(_holding_gil, "mmap", _P, _P, _SIZE, _INT, _INT, _INT, ctypes.c_long)
_mprotect = declare(_holding_gil, "mprotect", _INT, _P, _SIZE, _INT)
_madvise = declare(_holding_gil, "madvise", _INT, _P, _SIZE, _INT)
_munmap = declare(_releasing_gil, "munmap", _INT, _P, _SIZE)


def _check(failed: bool) -> None:
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _map(address: int | None, size: int, protection: int, flags: int, file: int, position: int = 0) -> int:
    mapped = _mmap(address, size, protection, mmap.MAP_PRIVATE | flags, file, position)
    _check(mapped == _FAILED)
    return int(mapped)


def reserve(size: int) -> int:
    """Reserve address space; return its address. No access is allowed."""
    return _map(None, size, 0, mmap.MAP_ANONYMOUS, -1)


def allow_access(address: int, size: int) -> None:
    """Allow to read and write reserved pages, which are zero."""
    _check(_mprotect(address, size, _READ_WRITE) != 0)


def discard(address: int, size: int) -> None:
    """Return anonymous pages to the system. On Linux, they are zero afterwards."""
    _check(_madvise(address, size, _MADV_DONTNEED) != 0)


def deny_access(address: int, size: int) -> None:
    _check(_mprotect(address, size, 0) != 0)


def map_file_at(address: int, file: int, position: int, size: int, *, writable: bool = True) -> None:
    """Replace reserved pages by a private copy of a part of an open file."""
    _map(address, size, _READ_WRITE if writable else mmap.PROT_READ, _MAP_FIXED, file, position)


def release(address: int, size: int) -> None:
    _check(_munmap(address, size) != 0)


def refuse_huge_pages(address: int, size: int) -> None:
    """Disable huge pages, so that no page is mapped before an access to it. Linux only."""
    _madvise(address, size, _MADV_NOHUGEPAGE)  # Without huge pages, the kernel rejects it.


def view(address: int, size: int) -> memoryview:
    """Return the bytes at an address; use them only while they are mapped."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def count_faults() -> int:
    """Return the number of page faults of this process. The first write to a page is one (getrusage(2))."""
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


class WrittenPages:
    """Finds pages of private mappings that may have been written since they were mapped. Linux only.

    Read pages of anonymous mappings are among them (source: proc_pid_pagemap(5)).
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        try:
            self._file: int | None = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            self.available = self._try()
        except OSError:
            self._file = None
            self.available = False

    def _try(self) -> bool:
        """Return whether the written page of three is found, and was counted."""
        address, before = reserve(3 * PAGE_BYTES), count_faults()
        try:
            allow_access(address, 3 * PAGE_BYTES)
            view(address, 3 * PAGE_BYTES)[PAGE_BYTES] = 1
            written = self.find(address, 3 * PAGE_BYTES, 3)
            return written == [(address + PAGE_BYTES, PAGE_BYTES)] and count_faults() > before
        finally:
            release(address, 3 * PAGE_BYTES)

    def find(self, address: int, size: int, most: int) -> list[tuple[int, int]] | None:
        """Return address and size of each range of such pages; `None` if they are more than `most`.

        Raises OSError, also in a fork of the process.
        """
        if self._file is None or os.getpid() != self._process:
            raise OSError(errno.ESRCH, "no page map of this process")
        count = size // PAGE_BYTES
        entries = os.pread(self._file, count * _ENTRY_BYTES, address // PAGE_BYTES * _ENTRY_BYTES)
        written = entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES].translate(_IS_WRITTEN)
        if len(written) != count:
            raise OSError(errno.EIO, "the page map ends too early")
        if written.count(1) > most:
            return None
        return [
            (address + begin * PAGE_BYTES, (end - begin) * PAGE_BYTES)
            for begin, end in map(re.Match.span, _WRITTEN_RUN.finditer(written))
        ]

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)
