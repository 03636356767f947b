"""Memories of instances that begin with a separate image (`binary/memory_image.py`), mapped by this host.

wasmtime calls the host to create a memory, and copies no data. A memory is a private mapping of the image's
files among anonymous pages: a base that many components share, and above it the pages in which one differs,
which are in a file without a name.
After a run in a warm slot, the pages that were written since the memory was mapped are reset, and a next run
takes it. That takes less time than wasmtime's own reset, which clears all resident pages. A memory with many
written pages is unmapped instead, and so is each one of a cold slot.
"""

import errno
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import ClassVar
from weakref import WeakValueDictionary, finalize, ref

from wasmtime import Engine

from engine.wasm.capi import pages
from engine.wasm.capi.pages import count_memories, set_memory_creator, set_stack_creator
from engine.wasm.compile.code_cache import CodeCacheError
from engine.wasm.compile.compilers import Compiler
from engine.wasm.compile.image_file import MemoryImage, own_pages
from engine.wasm.execution.config import MIB, compile_config

MAX_WRITTEN_BYTES, MAX_SEARCHED_BYTES = 4 * MIB, 64 * MIB
"""A memory that is larger, or has more written pages, is unmapped after its run."""
MAX_LAYERED = 512
"""While more memories are in use, only the base is mapped: Linux permits 65,530 mappings in a process."""
_PIECE = 2 * MIB
"""Bytes that are freed at once."""
_ZEROS = memoryview(bytes(MAX_WRITTEN_BYTES))


@cache
def _written_pages() -> pages.WrittenPages:
    return pages.WrittenPages()


class HostMemory:
    """One memory: reserved address space between guards, of which the first pages are accessible.

    The first write to a page is a page fault. So when there was no fault in this process since the last
    search for written pages, these are the same ones, and are not searched again.
    """

    __slots__ = (
        "_content", "_faults", "_found", "_image_begin", "_image_end", "_initial", "_mapping", "_minimum",
        "address", "free", "image", "reserved", "size", "written",
    )  # fmt: skip

    def __init__(self, image: "MappedImage", minimum: int, reserved: int, guard: int) -> None:
        """Map `minimum` bytes of `reserved` ones. Raises OSError."""
        self._mapping = pages.reserve(guard + reserved + guard), guard + reserved + guard
        self.address, self.reserved = self._mapping[0] + guard, reserved
        self._minimum = self.size = minimum
        self.image = image
        self._image_begin = self._image_end = minimum
        self._content = pages.view(self.address, minimum)
        self._found: list[tuple[int, int]] = []
        """Address and size of each range of pages that was written since the memory was mapped."""
        self._initial: list[tuple[memoryview, memoryview]] = []
        """These ranges, without added pages, and their initial content."""
        self._faults = (0, 0)
        """The process, and its page faults at the last search."""
        self.written = 0
        """Bytes of the ranges in `_initial`."""
        self.free: list[HostMemory]
        """Those that a next run may take instead of a new one; it belongs to the image."""
        try:
            pages.allow_access(self.address, minimum)
            if minimum == image.source.minimum:
                self._image_begin = image.source.start
                self._image_end = self._image_begin + image.source.length
                image.map_at(self.address + self._image_begin)
            pages.refuse_huge_pages(*self._mapping)
        except OSError:
            self.release()
            raise

    def grow(self, size: int) -> None:
        """Allow access to more pages. Raises OSError."""
        pages.allow_access(self.address + self.size, size - self.size)
        self.size = size

    def reset(self) -> bool:
        """Restore the initial content and size; return whether that was done. Raises OSError."""
        if self.size > MAX_SEARCHED_BYTES:
            return False
        faults = os.getpid(), pages.count_faults()
        if faults != self._faults:
            found = _written_pages().find(self.address, self.size, MAX_WRITTEN_BYTES // pages.PAGE_BYTES)
            if found is None:
                return False
            if found != self._found:
                self._found = found
                begins = [
                    (at - self.address, size) for at, size in found if at < self.address + self._minimum
                ]
                ranges = [(begin, min(begin + size, self._minimum)) for begin, size in begins]
                self._initial = [pair for begin, end in ranges for pair in self._with_initial(begin, end)]
                self.written = sum([end - begin for begin, end in ranges])
            self._faults = faults
        if added := self.size - self._minimum:
            pages.discard(self.address + self._minimum, added)
            pages.deny_access(self.address + self._minimum, added)
            self.size = self._minimum
        for content, initial in self._initial:
            content[:] = initial
        return True

    def _with_initial(self, begin: int, end: int) -> Iterator[tuple[memoryview, memoryview]]:
        """Yield the parts of a range before, in and after the image, each with its initial content."""
        low = min(max(begin, self._image_begin), end)
        high = max(min(end, self._image_end), low)
        if begin < low:
            yield self._content[begin:low], _ZEROS[: low - begin]
        if low < high:
            initial = self.image.content[low - self._image_begin : high - self._image_begin]
            yield self._content[low:high], initial
        if high < end:
            yield self._content[high:end], _ZEROS[: end - high]

    def release(self) -> None:
        """Unmap the memory.

        Mappings of other runs wait while the pages of one call are freed, so a call frees few.
        """
        self._initial = []
        with suppress(OSError):
            for begin in range(0, self.size, _PIECE):
                pages.discard(self.address + begin, min(_PIECE, self.size - begin))
            pages.release(*self._mapping)


class RetainedMemories:
    """Memories that were reset, for next runs. The longest unused one is released first.

    At most `count` are retained, with at most `limit` bytes of written pages. Callable from any thread.
    """

    def __init__(self, count: int, limit: int) -> None:
        self._count, self._limit = count, limit
        self._bytes = 0
        self._lock = threading.Lock()
        self._all: OrderedDict[HostMemory, None] = OrderedDict()

    def add(self, memory: HostMemory) -> None:
        """Retain a memory, and release others beyond the limits."""
        with self._lock:
            memory.free.append(memory)
            self._all[memory] = None
            self._bytes += memory.written
            released = []
            while len(self._all) > self._count or self._bytes > self._limit:
                oldest, _ = self._all.popitem(last=False)
                oldest.free.remove(oldest)
                self._bytes -= oldest.written
                released.append(oldest)
        for oldest in released:
            oldest.release()

    def take(self, free: list[HostMemory]) -> HostMemory | None:
        """Remove and return one of these memories, if there is one."""
        with self._lock:
            if not free:
                return None
            memory = free.pop()
            del self._all[memory]
            self._bytes -= memory.written
            return memory

    def clear(self) -> None:
        """Release all memories."""
        with self._lock:
            released = list(self._all)
            self._all.clear()
            self._bytes = 0
            for memory in released:
                memory.free.remove(memory)
        for memory in released:
            memory.release()

    def forget(self, image: "MappedImage") -> None:
        """Release the memories of an image. Those of runs that end later are released then."""
        image.unused = True
        for free in image.free.values():
            while (memory := self.take(free)) is not None:
                memory.release()


class _OpenFile:
    """An open file. Images that are made of one file share it."""

    opened: ClassVar[WeakValueDictionary[Path, "_OpenFile"]] = WeakValueDictionary()

    def __init__(self, number: int) -> None:
        """Own a descriptor."""
        self.number = number
        finalize(self, os.close, number)

    @classmethod
    def at(cls, path: Path) -> "_OpenFile":
        """Return an open file. Raises OSError."""
        found = cls.opened.get(path)
        if found is None or not os.path.samestat(os.fstat(found.number), path.stat()):
            cls.opened[path] = found = cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return found

    @classmethod
    def of(cls, content: bytes, folder: Path) -> "_OpenFile":
        """Return an open file without a name, on the disk of a folder. Raises `CodeCacheError`."""
        try:
            with tempfile.TemporaryFile(dir=folder, prefix=".", suffix=".tmp") as file:
                file.write(content)
                file.flush()
                return cls(os.dup(file.fileno()))
        except OSError as error:
            raise CodeCacheError(folder, error.strerror or str(error)) from error


class MappedImage:
    """The open and mapped files of an initial memory."""

    def __init__(self, source: MemoryImage) -> None:
        """Map the files. Raises OSError, and `CodeCacheError` if there is no space for the own pages."""
        self.source = source
        self._layers = [(_OpenFile.at(source.base), source.below)]
        if own := own_pages(source):
            file = _OpenFile.of(own, source.path.parent)
            self._layers += [(file, layer) for layer in source.own]
        self.free: dict[tuple[int, int, int], list[HostMemory]] = {}
        """Retained memories, by their sizes."""
        self.unused = False
        """True once no further run begins with this image."""
        address = pages.reserve(source.length)
        finalize(self, pages.release, address, source.length)
        self.map_at(address, writable=False)
        self.content = pages.view(address, source.length)

    def map_at(self, address: int, *, writable: bool = True) -> None:
        """Replace reserved pages by a private copy of the image. Raises OSError."""
        copies = writable and count_memories() > MAX_LAYERED
        for number, (file, layer) in enumerate(self._layers):
            at, end = address + layer.offset, layer.offset + layer.size
            if copies and number:
                pages.view(at, layer.size)[:] = self.content[layer.offset : end]
            else:
                pages.map_file_at(at, file.number, layer.position, layer.size, writable=writable)

    def select(self) -> None:
        """Use this image for the memories that wasmtime creates on this thread."""
        _selected.image = ref(self)


class _Selected(threading.local):
    image: Callable[[], MappedImage | None] = staticmethod(lambda: None)


_selected = _Selected()


RESIDENT_BYTES = 32 << 10
"""The part of a stack, from its top, that stays resident after a run."""


class RetainedStacks:
    """Stacks of fibers for next runs, at most `limit`. Callable from any thread.

    To map a new stack takes a tenth of the CPU time of a short run. Code of guests cannot read what an
    earlier run left on it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free: list[tuple[int, int]] = []
        finalize(self, _release_all, self._free)

    def create(self, size: int) -> int:
        """Return the lowest address of a stack of `size` bytes, with a guard below. Raises OSError."""
        with suppress(IndexError):
            address, free = self._free.pop()
            if free == size:
                return address
            _release(address, free)
        address = pages.reserve(pages.PAGE_BYTES + size) + pages.PAGE_BYTES
        try:
            pages.allow_access(address, size)
        except OSError:
            _release(address, size)
            raise
        return address

    def recycle(self, address: int, size: int) -> None:
        """Retain a stack whose run has ended, or release it."""
        if len(self._free) < self._limit:
            pages.discard(address, size - RESIDENT_BYTES)
            self._free.append((address, size))
        else:
            _release(address, size)


def _release(address: int, size: int) -> None:
    pages.release(address - pages.PAGE_BYTES, size + pages.PAGE_BYTES)


def _release_all(stacks: list[tuple[int, int]]) -> None:
    while stacks:
        _release(*stacks.pop())


class HostMemories:
    """The memories of one engine. Each begins with the image that is selected. Callable from any thread."""

    def __init__(self, retained: RetainedMemories | None) -> None:
        """`retained` is where memories stay after a run, if they do."""
        self._retained = retained if _written_pages().available else None

    def create_engine(self, compiler: Compiler, stacks: RetainedStacks | None = None) -> Engine:
        """Return the engine for machine code of a compiler. `stacks` are its fibers', if not wasmtime's."""
        config = compile_config(compiler)
        set_memory_creator(config, self)
        if stacks is not None:
            set_stack_creator(config, stacks)
        return Engine(config)

    def create(self, minimum: int, reserved: int, guard: int) -> HostMemory:
        """Return a memory with its initial content. Raises OSError."""
        image = _selected.image()
        if image is None:
            raise OSError(errno.EINVAL, "no memory image is selected")
        free = image.free.setdefault((minimum, reserved, guard), [])
        memory = self._retained.take(free) if self._retained is not None else None
        if memory is None:
            memory = HostMemory(image, minimum, reserved, guard)
            memory.free = free
        return memory

    def recycle(self, memory: HostMemory) -> None:
        """Retain a memory whose instance is closed, or release it."""
        if self._retained is not None and not memory.image.unused:
            with suppress(OSError):
                if memory.reset():
                    self._retained.add(memory)
                    return
        memory.release()

    def close(self) -> None:
        """Release all memories, after the engine."""
        if self._retained is not None:
            self._retained.clear()
