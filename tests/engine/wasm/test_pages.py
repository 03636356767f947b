"""Pages of this process: which were written, as the kernel reports, and the stacks of fibers."""

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.wasm.capi import pages
from engine.wasm.execution.host_memories import RESIDENT_BYTES, RetainedStacks
from tests.support.examples import examples

needs_kernel = pytest.mark.skipif(not pages.WrittenPages().available, reason="needs /proc/self/pagemap")


@needs_kernel
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(0, 999)), st.sets(st.integers(0, 999)), st.integers(0, 1000), st.booleans())
def test_exactly_the_written_pages_are_found(
    tmp_path: Path, written: set[int], read: set[int], most: int, of_file: bool
) -> None:
    """Pages of a file that were only read are not among them."""
    size, file = pages.PAGE_BYTES, tmp_path / "file"
    file.write_bytes(b"x" * 1000 * size)
    address = pages.reserve(1000 * size)
    try:
        if of_file:
            with file.open("rb") as opened:
                pages.map_file_at(address, opened.fileno(), 0, 1000 * size)
            for number in read:
                assert ctypes.string_at(address + number * size, 1) == b"x"
        else:
            pages.allow_access(address, 1000 * size)
        for number in written:
            ctypes.memset(address + number * size, 0, 1)
        found = pages.WrittenPages().find(address, 1000 * size, most)
    finally:
        pages.release(address, 1000 * size)
    if len(written) > most:
        assert found is None
    else:
        assert found is not None
        assert {(at - address) // size + i for at, length in found for i in range(length // size)} == written


@needs_kernel
def test_fork_does_not_read_the_page_map_of_its_parent() -> None:
    """It would take pages that it wrote for unchanged."""
    written = pages.WrittenPages()
    child = os.fork()
    if not child:
        try:
            written.find(0, pages.PAGE_BYTES, 1)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@contextmanager
def stack(stacks: RetainedStacks, size: int) -> Iterator[int]:
    """Yield the address of a stack whose pages are all written."""
    address = stacks.create(size)
    ctypes.memset(address, 0, size)
    yield address
    stacks.recycle(address, size)


def resident(address: int, size: int) -> int:
    """Return the resident bytes of pages at an address."""
    found = pages.WrittenPages().find(address, size, size)
    assert found is not None
    return sum(length for _, length in found)


@needs_kernel
def test_stacks_are_used_again_and_little_of_them_stays_resident() -> None:
    size, stacks = 1 << 20, RetainedStacks(1)
    with stack(stacks, size) as first, stack(stacks, size) as second:
        assert resident(first, size) >= size
    assert (resident(first, size), resident(second, size)) == (0, RESIDENT_BYTES)
    with stack(stacks, size) as third:
        assert third == second
    with stack(stacks, 2 * size) as other:
        assert other != second
    del stacks
    gc.collect()
    assert (resident(second, size), resident(other, size)) == (0, 0)
