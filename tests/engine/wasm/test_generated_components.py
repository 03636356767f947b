"""Generated and mutated WebAssembly: the host reads or rejects it, in bounded time."""

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component

from engine.files.sealed import is_sealed
from engine.wasm.binary.memory_image import split_memory
from engine.wasm.binary.preinit import ModuleBinary, preinitialize
from engine.wasm.binary.reader import declared_limits, read_outline
from engine.wasm.capi.linker import LinkedComponent
from engine.wasm.compile import compiler
from engine.wasm.compile.check import ComponentRejected, check_component
from engine.wasm.compile.compilers import Compiler
from engine.wasm.compile.image_file import find_code
from engine.wasm.execution.config import compile_config
from engine.wasm.execution.runner import Guest, Runner
from engine.wasm.weave.weaver import weave
from engine.wasm_binary import (
    COMPONENT_HEADER,
    MODULE_HEADER,
    UnsupportedBinary,
    name,
    read_sections,
    section,
    uleb,
    vector,
)
from tests.engine.wasm import generated, text_guest
from tests.engine.wasm.test_preinit import guest as preinitialized_guest
from tests.engine.wasm.valid_modules import valid_module
from tests.support.examples import examples
from tests.support.guest_client import Answer, Client

MAX_CPU_SECONDS = 2.0
MAX_BYTES = 64 << 20
ENGINES = {kind: Engine(compile_config(kind)) for kind in Compiler}
ENGINE = ENGINES[Compiler.BASELINE]
START = 8


@cache
def guests() -> tuple[bytes, ...]:
    """Return components that the host accepts: one with streams and memories, one with a runtime to start."""
    return text_guest.component(), preinitialized_guest()


BINARIES = st.one_of(
    generated.components(),
    st.deferred(lambda: st.sampled_from(guests()).flatmap(generated.mutations)),
    generated.components().flatmap(generated.mutations),
)


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if the block takes much CPU time of this thread."""
    began = time.thread_time()
    yield
    assert time.thread_time() - began < MAX_CPU_SECONDS


@pytest.mark.fuzz
@settings(max_examples=examples(25), deadline=None)
@given(BINARIES)
def test_generated_component_is_scanned_in_bounded_time(binary: bytes) -> None:
    with bounded():
        for analyze in (read_outline, declared_limits, split_memory, weave):
            with suppress(UnsupportedBinary):
                analyze(binary)
        with TemporaryDirectory() as folder, suppress(ComponentRejected):
            path = Path(folder) / "component.wasm"
            path.write_bytes(binary)
            check_component(path)


@pytest.mark.fuzz
@settings(max_examples=examples(25), deadline=None)
@given(st.one_of(generated.modules(), generated.modules().flatmap(generated.mutations)))
def test_generated_module_is_parsed_in_bounded_time(binary: bytes) -> None:
    with bounded(), suppress(UnsupportedBinary):
        ModuleBinary(binary).with_globals_exported()


def compiled(engine: Engine, binary: bytes, folder: Path) -> Path:
    target = folder / "a-b.cwasm"
    compiler.compile_to(engine, binary, target, MAX_BYTES, preinit=True)
    found = find_code(target, is_sealed)
    assert found is not None
    return found[0]


@pytest.mark.fuzz
@settings(max_examples=examples(12), deadline=None)
@given(BINARIES)
def test_generated_component_is_compiled_or_rejected(binary: bytes) -> None:
    """The compiler, whose process reports them, raises no other errors. What it compiles can be linked."""
    with TemporaryDirectory() as folder, suppress(WasmtimeError, UnsupportedBinary):
        with bounded():
            code = compiled(ENGINE, binary, Path(folder))
        with bounded():
            LinkedComponent(Component.deserialize_file(ENGINE, str(code)), ENGINE, {})


def with_module(module: bytes) -> bytes:
    """Return the guest with an instance of a further module."""
    index = uleb(len(read_outline(text_guest.component()).spaces["core-module"]))
    return text_guest.component() + section(1, module) + section(2, vector([b"\x00" + index + vector([])]))


@pytest.mark.fuzz
@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(Compiler))
def test_valid_module_is_woven_and_compiled(seed: int, kind: Compiler) -> None:
    binary = with_module(valid_module(seed))
    assert valid_module(seed) in weave(binary)
    engine = ENGINES[kind]
    with TemporaryDirectory() as folder, bounded():
        code = compiled(engine, binary, Path(folder))
        LinkedComponent(Component.deserialize_file(engine, str(code)), engine, {})


@pytest.mark.fuzz
@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 1 << 32), st.booleans())
def test_guest_beside_a_valid_module_runs_as_before(seed: int, fast: bool) -> None:
    """A module that starts may trap or compute for ever, and nothing else."""

    async def test(guest: Guest, _: Runner) -> Answer:
        return await Client().call(guest, "/h")

    module = valid_module(seed)
    with TemporaryDirectory() as folder:
        answer = text_guest.serve(Path(folder), test, fast=fast, data=with_module(module), run_limit_secs=1)
    if answer.report.outcome == "ok":
        assert answer.body == b"hello\n"
    else:
        assert any(kind == START for kind, _ in read_sections(module))
        assert answer.report.outcome in ("guest-failed", "run-limit")


def woven(binary: bytes) -> None:
    with suppress(UnsupportedBinary):
        weave(binary)


def repeated_module(size: int, instances: int) -> bytes:
    """Return a component with many instances of one module of some size."""
    module = MODULE_HEADER + section(5, b"\x01\x00\x01") + section(0, name(b"svc_freeze") + bytes(size))
    instance = b"\x00\x00" + vector([name(b"a") + b"\x12\x00"])
    return (
        COMPONENT_HEADER
        + section(1, module)
        + section(2, uleb(instances + 1) + b"\x00\x00\x00" + instance * instances)
    )


@pytest.mark.parametrize("read", [declared_limits, woven, preinitialize])
def test_module_with_many_instances_is_read_once(read: object) -> None:
    binary = repeated_module(8 << 20, 900)
    tracemalloc.start()
    try:
        with bounded():
            read(binary)  # type: ignore[operator]
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()
