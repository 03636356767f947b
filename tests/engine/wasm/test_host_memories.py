"""Memories that this host maps for wasmtime: fresh in every run, bounded, and unmapped in the end."""

import gc
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wasmtime import Instance, Memory, Module, Store, Trap, WasmtimeError

from engine.wasm.binary.memory_image import SplitComponent
from engine.wasm.capi import pages
from engine.wasm.capi.linker import CodeRejected
from engine.wasm.compile.code_cache import CompiledComponent, compile_component
from engine.wasm.compile.compilers import Compiler
from engine.wasm.compile.component_file import ComponentRejected
from engine.wasm.compile.image_file import Layer, MemoryImage, image_file, read_image, write_image
from engine.wasm.execution import host_memories, runner
from engine.wasm.execution.host_memories import (
    MAX_SEARCHED_BYTES,
    MAX_WRITTEN_BYTES,
    HostMemories,
    MappedImage,
    RetainedMemories,
)
from engine.wasm.execution.runner import Guest, Runner
from tests.engine.wasm import text_guest
from tests.engine.wasm.test_memory_image import FILL, with_data
from tests.engine.wasm.test_pages import needs_kernel
from tests.support.examples import examples
from tests.support.guest_client import Client

PAGE = 65536
MINIMUM, START, LENGTH = 160 * PAGE, 8 * PAGE, 100 * PAGE
INITIAL = (bytes(START) + bytes(range(1, 252)) * (LENGTH // 251 + 1))[: START + LENGTH].ljust(MINIMUM, b"\0")
MODULE = f"""(module (memory (export "memory") {MINIMUM // PAGE} 2000)
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0))))"""
MUCH = 1 << 30
NUMBERS = count()


def mapped_image(path: Path, start: int, length: int, minimum: int) -> MappedImage:
    """Map an image that is one file."""
    return MappedImage(MemoryImage(path, start, length, minimum, path, base=path, below=Layer(0, 0, length)))


class Program:
    """A module whose memory begins with an image."""

    def __init__(self, folder: Path, retained: RetainedMemories | None, text: str = MODULE) -> None:
        self.image = folder / f"{next(NUMBERS)}.image"
        self.image.write_bytes(INITIAL[START : START + LENGTH])
        self.mapping = mapped_image(self.image, START, LENGTH, MINIMUM)
        self.engine = HostMemories(retained).create_engine(Compiler.OPTIMIZING)
        self.module = Module(self.engine, text)

    @contextmanager
    def run(self) -> Iterator["Run"]:
        """Yield an instance, which is dropped afterwards."""
        self.mapping.select()
        store = Store(self.engine)
        try:
            yield Run(store, self.module)
        finally:
            store.close()

    def mapped(self) -> int:
        """Return how many memories with this image are mapped."""
        lines = Path("/proc/self/maps").read_text().splitlines()
        return len([line for line in lines if line.endswith(str(self.image)) and " rw-p " in line])

    def close(self) -> None:
        self.module.close()
        self.engine.close()


class Run:
    """One instance."""

    def __init__(self, store: Store, module: Module) -> None:
        self._store = store
        store.set_epoch_deadline(1)
        exports = Instance(store, module, []).exports(store)
        memory = exports["memory"]
        assert isinstance(memory, Memory)
        self.memory, self._exports = memory, cast(Any, exports)

    def grow(self, count: int) -> int:
        """Grow by WebAssembly pages; return the size before."""
        return int(self._exports["grow"](self._store, count))

    def load(self, at: int) -> int:
        return int(self._exports["load"](self._store, at))

    def read(self) -> bytes:
        return bytes(self.memory.read(self._store))

    def write(self, at: int, data: bytes) -> None:
        self.memory.write(self._store, data, at)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, MINIMUM - 1), st.integers(1, 3 * PAGE)), max_size=8),
    st.integers(0, 20),
    st.booleans(),
)
def test_each_run_begins_with_the_initial_content(
    tmp_path: Path, writes: list[tuple[int, int]], grown: int, retain: bool
) -> None:
    program = Program(tmp_path, RetainedMemories(2, MUCH) if retain else None)
    for _ in range(3):
        with program.run() as run:
            assert run.read() == INITIAL
            assert run.grow(grown) == MINIMUM // PAGE
            assert run.read() == INITIAL + bytes(grown * PAGE)
            for at, size in writes:
                run.write(at, b"\xff" * min(size, MINIMUM - at))
            if grown:
                run.write(MINIMUM, b"\xff" * grown * PAGE)
    program.close()


@needs_kernel
def test_pages_are_searched_only_after_page_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, searches = Program(tmp_path, RetainedMemories(2, MUCH)), list[int]()
    find = pages.WrittenPages.find

    def count_searches(self: pages.WrittenPages, address: int, size: int, most: int) -> Any:
        searches.append(size)
        return find(self, address, size, most)

    def search_after_write(at: int, call: Callable[..., Any] = lambda f, *a: f(*a)) -> bool:
        """Write a byte that has its initial value; return whether its page was searched after the run."""
        with program.run() as run:
            assert call(run.load, at) == INITIAL[at]
            call(run.write, at, b"\xff")
            searches.clear()
        return bool(searches)

    monkeypatch.setattr(pages.WrittenPages, "find", count_searches)
    assert not all(search_after_write(START) for _ in range(1000))
    with ThreadPoolExecutor(1) as thread:
        for number, at in enumerate(range(0, MINIMUM, 7 * pages.PAGE_BYTES)):
            submit = (lambda f, *a: thread.submit(f, *a).result(),) if number % 2 else ()
            assert search_after_write(at, *submit)
    assert not all(search_after_write(START) for _ in range(1000))
    program.close()


@needs_kernel
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sets(st.integers(0, 4 * PAGE - 1), max_size=3), max_size=8))
def test_memory_has_its_initial_content_after_each_reset(tmp_path: Path, runs: list[set[int]]) -> None:
    path, start, length = tmp_path / "image", PAGE, 2 * PAGE
    path.write_bytes(b"i" * length)
    image = mapped_image(path, start, length, 4 * PAGE)
    image.select()
    memories, initial = HostMemories(RetainedMemories(1, MUCH)), bytes(start) + b"i" * length
    initial += bytes(4 * PAGE - len(initial))
    for written in runs:
        memory = memories.create(4 * PAGE, 8 * PAGE, 0)
        content = pages.view(memory.address, 4 * PAGE)
        assert content == initial
        for at in written:
            content[at] = 0xFF
        memories.recycle(memory)
    memories.close()


@needs_kernel
def test_memory_is_used_again_unless_much_of_it_was_written(tmp_path: Path) -> None:
    program = Program(tmp_path, RetainedMemories(2, MUCH))
    for written, retained in ((1, 1), (MAX_WRITTEN_BYTES, 1), (MAX_WRITTEN_BYTES + 1, 0)):
        with program.run() as run:
            run.write(PAGE, b"\xff" * written)
        assert program.mapped() == retained
    program.close()


@needs_kernel
def test_written_pages_of_several_runs_count_together(tmp_path: Path) -> None:
    """They stay mapped, so they take memory until the memory is unmapped."""
    program = Program(tmp_path, RetainedMemories(2, MUCH))
    for half in (0, 1):
        with program.run() as run:
            run.write(PAGE + half * MAX_WRITTEN_BYTES, b"\xff" * (MAX_WRITTEN_BYTES // 2 + 1))
    assert program.mapped() == 0
    program.close()


@needs_kernel
def test_memories_of_all_programs_are_bounded(tmp_path: Path) -> None:
    retained = RetainedMemories(3, MUCH)
    first, second = Program(tmp_path, retained), Program(tmp_path, retained)
    with first.run(), first.run():
        pass
    with second.run(), second.run():
        pass
    assert (first.mapped(), second.mapped()) == (1, 2)
    with first.run(), first.run(), first.run():
        assert (first.mapped(), second.mapped()) == (3, 2)
    assert (first.mapped(), second.mapped()) == (3, 0)
    first.close()
    second.close()


@needs_kernel
def test_written_pages_of_all_programs_are_bounded(tmp_path: Path) -> None:
    retained = RetainedMemories(100, 3 * PAGE)
    first, second = Program(tmp_path, retained), Program(tmp_path, retained)
    for program, mapped in ((first, (1, 0)), (second, (1, 1)), (first, (1, 1)), (second, (1, 1))):
        with program.run() as run:
            run.write(0, b"x" * PAGE)
        assert (first.mapped(), second.mapped()) == mapped
    with first.run() as run:
        run.write(PAGE, b"x" * 2 * PAGE)
    assert (first.mapped(), second.mapped()) == (1, 0)
    first.close()
    second.close()


def test_memory_is_unmapped_after_its_run_in_a_cold_slot(tmp_path: Path) -> None:
    program = Program(tmp_path, None)
    with program.run():
        assert program.mapped() == 1
    assert program.mapped() == 0
    program.close()


def test_without_a_page_map_each_run_maps_a_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any) -> int:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(pages.WrittenPages, "find", fail)
    unable = pages.WrittenPages()
    assert not unable.available
    monkeypatch.setattr(host_memories, "_written_pages", lambda: unable)
    program = Program(tmp_path, RetainedMemories(2, MUCH))
    for _ in range(2):
        with program.run() as run:
            assert run.read() == INITIAL
            run.write(0, b"\xff" * MINIMUM)
        assert program.mapped() == 0
    program.close()


@pytest.mark.parametrize(
    "error", [OSError(12, "no memory"), MemoryError("no memory"), KeyboardInterrupt("no memory")]
)
def test_error_of_a_mapping_fails_the_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    program = Program(tmp_path, RetainedMemories(2, MUCH))

    def fail(*_arguments: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(host_memories.HostMemories, "create", fail)
        with pytest.raises(WasmtimeError, match="no memory"), program.run():
            pass
    with program.run() as run:
        assert run.read() == INITIAL
    program.close()


def open_files() -> set[Path]:
    files = set[Path]()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # Another thread has closed it.
            files.add(each.readlink())
    return files


def test_everything_is_unmapped_with_the_engine(tmp_path: Path) -> None:
    program = Program(tmp_path, RetainedMemories(4, MUCH))
    with program.run(), program.run():
        pass
    image = program.image
    assert image in open_files()
    program.close()
    del program
    gc.collect()
    assert str(image) not in Path("/proc/self/maps").read_text()
    assert image not in open_files()


@pytest.mark.parametrize("at", [MINIMUM, MINIMUM + 5 * PAGE, 2**31, 2**32 - 1])
def test_access_beyond_the_memory_traps(tmp_path: Path, at: int) -> None:
    """Also where the memory of an earlier run had grown to."""
    program = Program(tmp_path, RetainedMemories(2, MUCH))
    with program.run() as run:
        run.grow(10)
        assert run.load(MINIMUM + 10 * PAGE - 1) == 0
    with program.run() as run, pytest.raises(Trap, match="out of bounds"):
        run.load(at - 2**32 if at >= 2**31 else at)
    program.close()


def test_other_memories_begin_with_zeros(tmp_path: Path) -> None:
    text = MODULE.replace(f" {MINIMUM // PAGE} ", f" {MINIMUM // PAGE + 1} ")
    program = Program(tmp_path, RetainedMemories(2, MUCH), text)
    for _ in range(2):
        with program.run() as run:
            assert run.read() == bytes(MINIMUM + PAGE)
            run.write(START, b"\xff" * PAGE)
    program.close()


FULL = """
import resource, sys
from pathlib import Path
from tests.engine.wasm.test_host_memories import Program
program = Program(Path(sys.argv[1]), None)
used = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 30),) * 2)
try:
    with program.run(), program.run():
        pass
except Exception as error:
    print(error)
"""


def test_lack_of_address_space_ends_the_run_with_a_reason(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert process.stderr == ""
    assert "cannot map memory: [Errno 12] Cannot allocate memory" in process.stdout


@needs_kernel
def test_large_memory_is_not_retained(tmp_path: Path) -> None:
    program = Program(tmp_path, RetainedMemories(2, MUCH))
    for pages_of_wasm, retained in (
        ((MAX_SEARCHED_BYTES - MINIMUM) // PAGE, 1),
        (MAX_SEARCHED_BYTES // PAGE, 0),
    ):
        with program.run() as run:
            assert run.grow(pages_of_wasm) > 0
        assert program.mapped() == retained
    program.close()


def test_image_that_is_lost_before_it_is_mapped_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Path] = []

    async def compile_and_lose(*arguments: Any, **options: Any) -> CompiledComponent:
        component = await compile_component(*arguments, **options)
        if component.image is not None and not lost:
            component.image.path.unlink()
            lost.append(component.image.path)
        return component

    async def test(guest: Guest, _runner: Runner) -> bytes:
        return (await Client().call(guest, "/h")).body

    monkeypatch.setattr(runner, "compile_component", compile_and_lose)
    assert text_guest.serve(tmp_path, test, data=text_guest.component(hosted=True)) == b"hello\n"
    assert len(lost) == 1


@pytest.mark.parametrize("hosted", [True, False])
def test_lack_of_descriptors_leaves_the_files_of_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosted: bool
) -> None:
    """Otherwise all js applications would be compiled again."""
    limits, binary = resource.getrlimit(resource.RLIMIT_NOFILE), text_guest.component(hosted=hosted)

    async def compile_and_use_up_descriptors(*arguments: Any, **options: Any) -> CompiledComponent:
        component = await compile_component(*arguments, **options)
        unused = os.dup(0)
        os.close(unused)
        resource.setrlimit(resource.RLIMIT_NOFILE, (unused, limits[1]))
        return component

    async def test(guest: Guest, _runner: Runner) -> bytes:
        return (await Client().call(guest, "/h")).body

    with monkeypatch.context() as patched:
        patched.setattr(runner, "compile_component", compile_and_use_up_descriptors)
        try:
            with pytest.raises(CodeRejected, match="Too many open files"):
                text_guest.serve(tmp_path, test, data=binary)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    files = {path: path.stat().st_ino for path in (tmp_path / "compiled").iterdir()}
    assert text_guest.serve(tmp_path, test, data=binary) == b"hello\n"
    assert {path: path.stat().st_ino for path in (tmp_path / "compiled").iterdir()} == files
    assert any(path.suffix == ".cwasm" for path in files)


def test_component_beyond_the_limits_of_an_instance_is_rejected(tmp_path: Path) -> None:
    async def test(_guest: Guest, _runner: Runner) -> None:
        pass

    binary = with_data((PAGE, FILL), more="(table 70000 funcref)")
    with pytest.raises(ComponentRejected, match="70000 which exceeds the limit of 60000"):
        text_guest.serve(tmp_path, test, data=binary)


OWN = [(0, 3 * pages.PAGE_BYTES), (40 * PAGE, pages.PAGE_BYTES), (LENGTH - PAGE, PAGE)]
"""Places in an image, and sizes, of the ranges in which a program differs from the base."""


def layered_images(folder: Path, count: int) -> list[tuple[MappedImage, bytes]]:
    """Map images that share a base; return each with the memory that begins with it."""
    images = []
    for number in range(count + 1):
        target, initial = folder / f"{next(NUMBERS)}-x.cwasm", bytearray(INITIAL)
        for offset, size in OWN if number else ():
            initial[START + offset : START + offset + size] = bytes([0xF0 + number]) * size
        content = bytes(initial[START : START + LENGTH])
        write_image(target, SplitComponent(b"code", content, START, MINIMUM), (None,))
        source = read_image(image_file(target))
        assert source is not None and [each[1:] for each in source.own] == (OWN if number else [])
        images.append((MappedImage(source), bytes(initial)))
    return images[1:]


@pytest.mark.slow
@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(
                st.tuples(
                    st.sampled_from([0, START, START + 40 * PAGE, START + LENGTH - PAGE, MINIMUM - PAGE]),
                    st.integers(-pages.PAGE_BYTES, pages.PAGE_BYTES),
                    st.integers(1, 2 * PAGE),
                ),
                max_size=4,
            ),
            st.integers(0, 3),
        ),
        max_size=8,
    ),
    st.booleans(),
    st.booleans(),
)
def test_runs_of_programs_with_one_base_begin_with_their_own_memory(
    tmp_path: Path, runs: list[tuple[int, list[tuple[int, int, int]], int]], retain: bool, copied: bool
) -> None:
    images = layered_images(tmp_path, 3)
    engine = HostMemories(RetainedMemories(3, MUCH) if retain else None).create_engine(Compiler.OPTIMIZING)
    module = Module(engine, MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_memories, "MAX_LAYERED", -1 if copied else MUCH)
        for which, writes, grown in runs:
            image, initial = images[which]
            image.select()
            store = Store(engine)
            run = Run(store, module)
            assert run.read() == initial
            run.grow(grown)
            assert run.read() == initial + bytes(grown * PAGE)
            for near, offset, size in writes:
                at = max(0, near + offset)
                run.write(at, b"\xff" * min(size, MINIMUM + grown * PAGE - at))
            store.close()
    base = images[0][0].source.base
    assert base.read_bytes()[:LENGTH] == INITIAL[START : START + LENGTH]
    module.close()
    engine.close()


@needs_kernel
def test_pages_of_a_program_are_reset_where_only_they_were_written(tmp_path: Path) -> None:
    """A memory is used again by the same program only, with its own content and not that of the base."""
    (one, initial), (two, other) = layered_images(tmp_path, 2)
    memories = HostMemories(RetainedMemories(2, MUCH))
    one.select()
    memory = memories.create(MINIMUM, MINIMUM, 0)
    content = pages.view(memory.address, MINIMUM)
    for offset, size in OWN:
        content[START + offset : START + offset + size] = b"\xff" * size
    memories.recycle(memory)
    assert bytes(content) == initial
    two.select()
    second = memories.create(MINIMUM, MINIMUM, 0)
    assert second is not memory
    assert bytes(pages.view(second.address, MINIMUM)) == other
    one.select()
    assert memories.create(MINIMUM, MINIMUM, 0) is memory
    memories.recycle(memory)
    memories.recycle(second)
    memories.close()


def test_memories_of_an_unloaded_program_are_released(tmp_path: Path) -> None:
    (one, _), (two, _) = layered_images(tmp_path, 2)
    retained = RetainedMemories(4, MUCH)
    memories = HostMemories(retained)
    created = []
    for image in (one, one, two):
        image.select()
        created.append(memories.create(MINIMUM, MINIMUM, 0))
    memories.recycle(created[0])
    retained.forget(one)
    memories.recycle(created[1])
    memories.recycle(created[2])
    writable = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if " rw-p " in line]
    files = [os.fstat(image._layers[1][0].number).st_ino for image in (one, two)]
    assert [sum(fields[4] == str(file) for fields in writable) for file in files] == [0, len(OWN)]
    memories.close()


def test_memory_without_an_image_ends_the_run_with_a_reason(tmp_path: Path) -> None:
    program = Program(tmp_path, None)
    with ThreadPoolExecutor(1) as thread:
        store = Store(program.engine)
        with pytest.raises(WasmtimeError, match="no memory image is selected"):
            thread.submit(Run, store, program.module).result()
        store.close()
    program.close()
