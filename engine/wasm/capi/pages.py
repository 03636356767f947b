"""Mapped pages of this process, by address: mmap(2), mprotect(2), and /proc/self/pagemap.

All sizes and addresses are in bytes and multiples of the page size. Functions raise OSError.

At the end are the callbacks by which wasmtime creates and drops the memories and the stacks of an engine's
instances. wasmtime's C headers (`config.h`) specify them. They raise no exception, which ctypes would only
print.
"""

import ctypes
import errno
import itertools
import mmap
import os
import re
from resource import RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Any

from wasmtime import Config

from engine.wasm.capi.wasmtime import LIBRARY, address, declare

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


if TYPE_CHECKING:
    from engine.wasm.execution.host_memories import HostMemories, HostMemory, RetainedStacks

_library = ctypes.PyDLL(LIBRARY)
_error_new = declare(_library, "wasmtime_error_new", _P, ctypes.c_char_p)
_set_creator = declare(_library, "wasmtime_config_host_memory_creator_set", None, _P, _P)
_set_stack_creator = declare(_library, "wasmtime_config_host_stack_creator_set", None, _P, _P)
_WORDS_3, _WORDS_4 = ctypes.c_uint64 * 3, ctypes.c_uint64 * 4
"""The structures of a creator and of a stack, and of a memory: a value for callbacks, and these."""


_keys = itertools.count(1)
_creators: dict[int, Any] = {}
"""The creators of engines, by keys that wasmtime passes."""
_live: "dict[int, tuple[HostMemories, HostMemory]]" = {}
"""The memories of instances, by their addresses."""
_live_stacks: "dict[int, tuple[RetainedStacks, int]]" = {}
"""The creator and the size of each stack, by its address."""


def count_memories() -> int:
    return len(_live)


def set_memory_creator(config: Config, creator: "HostMemories") -> None:
    """Map the memories of the engine with this configuration by a creator. Create only one engine."""
    _set(_set_creator, config, creator, _CREATOR_CALLBACKS)


def set_stack_creator(config: Config, creator: "RetainedStacks") -> None:
    """Map the stacks of the engine with this configuration by a creator. Create only one engine."""
    _set(_set_stack_creator, config, creator, _STACK_CREATOR_CALLBACKS)


def _set(function: Any, config: Config, creator: Any, callbacks: list[int]) -> None:
    key = next(_keys)
    _creators[key] = creator
    words = _WORDS_3(key, *callbacks)
    function(address(config), ctypes.addressof(words))


def _error(error: BaseException) -> int:
    # An exception that leaves a callback is lost, and the result 0 means success.
    return int(_error_new(f"cannot map memory: {error}".encode()))


def _get_memory(at: int, size: int, capacity: int) -> int:
    _, memory = _live[at]
    _SIZE.from_address(size).value = memory.size
    _SIZE.from_address(capacity).value = memory.reserved
    return at


def _grow_memory(at: int, size: int) -> int:
    try:
        _live[at][1].grow(size)
    except BaseException as error:
        return _error(error)
    return 0


def _on_memory_dropped(at: int) -> None:
    creator, memory = _live.pop(at)
    creator.recycle(memory)


def _new_memory(
    key: int, _type: int, minimum: int, _maximum: int, reserved: int, guard: int, result: int
) -> int:
    creator = _creators[key]
    try:
        memory = creator.create(minimum, reserved, guard)
    except BaseException as error:
        return _error(error)
    _live[memory.address] = creator, memory
    _WORDS_4.from_address(result)[:] = [memory.address, *_MEMORY_CALLBACKS]
    return 0


def _new_stack(key: int, size: int, _zeroed: bool, result: int) -> int:
    creator = _creators[key]
    try:
        at = creator.create(size)
    except BaseException as error:
        return _error(error)
    _live_stacks[at] = creator, size
    _WORDS_3.from_address(result)[:] = [at, *_STACK_CALLBACKS]
    return 0


def _get_stack(at: int, size: int) -> int:
    _, length = _live_stacks[at]
    _SIZE.from_address(size).value = length
    return at + length


def _on_stack_dropped(at: int) -> None:
    creator, size = _live_stacks.pop(at)
    creator.recycle(at, size)


_callbacks = (
    ctypes.CFUNCTYPE(_SIZE, _P, _P, *[_SIZE] * 4, _P)(_new_memory),
    ctypes.CFUNCTYPE(None, _P)(lambda key: _creators.pop(key).close()),
    ctypes.CFUNCTYPE(_SIZE, _P, _P, _P)(_get_memory),
    ctypes.CFUNCTYPE(_SIZE, _P, _SIZE)(_grow_memory),
    ctypes.CFUNCTYPE(None, _P)(_on_memory_dropped),
    ctypes.CFUNCTYPE(_SIZE, _P, _SIZE, ctypes.c_bool, _P)(_new_stack),
    ctypes.CFUNCTYPE(None, _P)(_creators.__delitem__),
    ctypes.CFUNCTYPE(_SIZE, _P, _P)(_get_stack),
    ctypes.CFUNCTYPE(None, _P)(_on_stack_dropped),
)
_pointers = [ctypes.cast(callback, _P).value or 0 for callback in _callbacks]
_CREATOR_CALLBACKS, _MEMORY_CALLBACKS = _pointers[:2], _pointers[2:5]
_STACK_CREATOR_CALLBACKS, _STACK_CALLBACKS = _pointers[5:7], _pointers[7:]
