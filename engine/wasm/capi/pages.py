"""Mapped pages of this process, by address: mmap(2), mprotect(2), and ioctl(2) of /proc/self/pagemap.

All sizes and addresses are in bytes and multiples of the page size. Functions raise OSError.
"""

import ctypes
import mmap
import os
import threading
from typing import Any

PAGE_BYTES = mmap.PAGESIZE
_MAP_FIXED = 0x10
_MADV_DONTNEED = 4
_FAILED = ctypes.c_void_p(-1).value
_P, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_PAGEMAP_SCAN = 0xC0606610
_SCAN_WORDS = 12
"""64-bit words of `struct pm_scan_arg`, in linux/fs.h."""
_IS_FILE, _IS_PRESENT, _IS_SWAPPED, _IS_ZERO_PAGE = 4, 8, 16, 32
_MAX_RANGES = 256


def _declare(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = library[name]
    function.restype = result
    function.argtypes = list(arguments)
    return function


# Calls of microseconds hold the GIL. To unmap memory takes long if much of it was touched.
_holding_gil = ctypes.PyDLL(None, use_errno=True)
_releasing_gil = ctypes.CDLL(None, use_errno=True)
_mmap = _declare(_holding_gil, "mmap", _P, _P, _SIZE, _INT, _INT, _INT, ctypes.c_long)
_mprotect = _declare(_holding_gil, "mprotect", _INT, _P, _SIZE, _INT)
_madvise = _declare(_holding_gil, "madvise", _INT, _P, _SIZE, _INT)
_munmap = _declare(_releasing_gil, "munmap", _INT, _P, _SIZE)
_ioctl = _declare(_holding_gil, "ioctl", _INT, _INT, ctypes.c_ulong, _P)
copy = _declare(_holding_gil, "memmove", None, _P, _P, _SIZE)
_memset = _declare(_holding_gil, "memset", None, _P, _INT, _SIZE)


def _check(failed: bool) -> None:
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _map(address: int | None, size: int, protection: int, flags: int, file: int) -> int:
    mapped = _mmap(address, size, protection, mmap.MAP_PRIVATE | flags, file, 0)
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
    """Deny to read and write pages."""
    _check(_mprotect(address, size, 0) != 0)


def map_file(file: int, size: int) -> int:
    """Map the start of an open file to read it; return the address."""
    return _map(None, size, mmap.PROT_READ, 0, file)


def map_file_at(address: int, file: int, size: int) -> None:
    """Replace reserved pages by a private, writable copy of the start of an open file."""
    _map(address, size, _READ_WRITE, _MAP_FIXED, file)


def release(address: int, size: int) -> None:
    """Unmap pages."""
    _check(_munmap(address, size) != 0)


def clear(address: int, size: int) -> None:
    """Write zeros."""
    _memset(address, 0, size)


class WrittenPages:
    """Finds the pages of private mappings that were written since they were mapped. Linux 6.7 and later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranges = (ctypes.c_uint64 * (3 * _MAX_RANGES))()
        self._argument = (ctypes.c_uint64 * _SCAN_WORDS)()
        self._argument_at = ctypes.addressof(self._argument)
        try:
            self._file: int | None = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            self.available = self._try()
        except OSError:
            self._file = None
            self.available = False

    def _try(self) -> bool:
        """Return whether exactly the written page of three is found."""
        address = reserve(3 * PAGE_BYTES)
        try:
            allow_access(address, 3 * PAGE_BYTES)
            ctypes.string_at(address, 3 * PAGE_BYTES)
            clear(address + PAGE_BYTES, 1)
            return self.find(address, 3 * PAGE_BYTES, 3) == [(address + PAGE_BYTES, PAGE_BYTES)]
        finally:
            release(address, 3 * PAGE_BYTES)

    def find(self, address: int, size: int, most: int) -> list[tuple[int, int]] | None:
        """Return address and size of each range of written pages; `None` if more than `most` pages are."""
        found: list[tuple[int, int]] = []
        end, scan, ranges = address + size, self._argument, self._ranges
        with self._lock:
            while address < end:
                scan[:] = [
                    ctypes.sizeof(scan),
                    0,
                    address,
                    end,
                    0,
                    ctypes.addressof(ranges),
                    _MAX_RANGES,
                    most + 1,
                    _IS_FILE | _IS_ZERO_PAGE,
                    _IS_FILE | _IS_ZERO_PAGE,
                    _IS_PRESENT | _IS_SWAPPED,
                    0,
                ]
                count = _ioctl(self._file, _PAGEMAP_SCAN, self._argument_at)
                _check(count < 0)
                for at in range(0, 3 * count, 3):
                    begin = ranges[at]
                    found.append((begin, ranges[at + 1] - begin))
                    most -= found[-1][1] // PAGE_BYTES
                if most < 0:
                    return None
                address = scan[4]
        return found

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)
