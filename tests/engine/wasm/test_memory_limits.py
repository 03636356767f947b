import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasmtime import wat2wasm

from engine.wasm.binary.memory_limits import MAX_MEMORIES, PAGE_BYTES, declared_limits, split_limit
from engine.wasm.execution.config import MIB
from engine.wasm_binary import COMPONENT_HEADER, MODULE_HEADER, section, vector


def size_of_each(binary: bytes, limit: int) -> int:
    return split_limit(declared_limits(binary), limit)


def component(*modules: str) -> bytes:
    fields = "".join(
        f"(core module $m{number} {text}) (core instance (instantiate $m{number}))"
        for number, text in enumerate(modules)
    )
    return bytes(wat2wasm(f"(component {fields})"))


def test_single_memory_gets_complete_limit() -> None:
    assert size_of_each(component("(memory 1)"), 64 * MIB) == 64 * MIB
    assert size_of_each(component("(memory 1 2)", "(func)"), 64 * MIB) == 64 * MIB
    assert size_of_each(component("(func)"), 64 * MIB) == 64 * MIB


def test_several_memories_share_limit() -> None:
    assert size_of_each(component("(memory 1) (memory 1)"), 64 * MIB) == 32 * MIB
    assert size_of_each(component("(memory 1)", "(memory 1)"), 64 * MIB) == 32 * MIB


def test_small_maximum_leaves_rest_to_other_memories() -> None:
    assert size_of_each(component("(memory 1)", "(memory 1 16)"), 64 * MIB) == 63 * MIB


def test_module_counts_once_per_instance() -> None:
    twice = "(core module $m (memory 1)) (core instance (instantiate $m)) (core instance (instantiate $m))"
    assert size_of_each(bytes(wat2wasm(f"(component {twice})")), 64 * MIB) == 32 * MIB


def test_component_with_uncounted_memories_gets_limit_of_the_maximum_number() -> None:
    many = component(*["(memory 1)"] * (MAX_MEMORIES + 1))
    for binary in (b"nothing", many):
        assert size_of_each(binary, 64 * MIB) == 8 * MIB


@pytest.mark.parametrize("nested", [False, True])
def test_memories_beyond_the_maximum_take_no_memory_of_the_service(nested: bool) -> None:
    module = section(1, MODULE_HEADER + section(5, vector([b"\0\0"] * 100_000)))
    items = module + section(2, vector([b"\0\0\0"] * 300))
    inner = section(4, COMPONENT_HEADER + items) + section(5, vector([b"\0\0\0"] * 300))
    binary = COMPONENT_HEADER + (inner if nested else items)
    tracemalloc.start()
    try:
        declared_limits(binary)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@given(st.lists(st.one_of(st.none(), st.integers(0, 2000)), max_size=8), st.integers(16, 1024))
def test_total_memory_never_exceeds_limit(pages: list[int | None], mib: int) -> None:
    declared = [None if count is None else count * PAGE_BYTES for count in pages]
    each = split_limit(declared, mib * MIB)
    assert sum(each if maximum is None else min(maximum, each) for maximum in declared) <= mib * MIB
