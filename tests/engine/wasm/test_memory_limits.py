from hypothesis import given
from hypothesis import strategies as st
from wasmtime import wat2wasm

from engine.wasm.binary.reader import PAGE_BYTES, declared_limits, split_limit
from engine.wasm.execution.config import MIB


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


@given(st.lists(st.one_of(st.none(), st.integers(0, 2000)), max_size=8), st.integers(16, 1024))
def test_total_memory_never_exceeds_limit(pages: list[int | None], mib: int) -> None:
    declared = [None if count is None else count * PAGE_BYTES for count in pages]
    each = split_limit(declared, mib * MIB)
    assert sum(each if maximum is None else min(maximum, each) for maximum in declared) <= mib * MIB
