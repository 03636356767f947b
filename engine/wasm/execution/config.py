"""How wasmtime is set up, for the process that compiles and the one that runs: the same in both.

Owns the wasmtime `Config` and the pool of instances. Compiled code only loads where the settings that
shape it (`code_key`) are equal.
"""

import platform
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version

from wasmtime import Config, Engine, _ffi

MIB = 1 << 20
WARM_RESIDENT_MIB = 16
WASM_STACK_MIB = 2
MEMORIES_PER_INSTANCE = 3
"""Memories that an instance has on average, at most."""
_BASELINE = 2  # wasmtime_strategy_t
_HAS_BASELINE = platform.machine().lower() in {"x86_64", "amd64", "aarch64", "arm64"}


class Compiler(StrEnum):
    """Which of wasmtime's compilers makes machine code."""

    OPTIMIZING = "cranelift"
    BASELINE = "winch"
    """A third of the time, and code at half the speed. It does not know every proposal."""


def compilers(*, fast: bool) -> tuple[Compiler, ...]:
    """Return the compilers to try, one after the other."""
    return (Compiler.BASELINE, Compiler.OPTIMIZING) if fast and _HAS_BASELINE else (Compiler.OPTIMIZING,)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Room for instances: `instances` at once, each memory at most `memory_mib`.

    A slot that was never used costs address space and a kilobyte; so there are enough for a thousand streams
    and the short runs beside them.

    `warm` of them keep the memory that they touched for the next instance, reset to its first state, in
    place of giving it back to the system. A third of a short run's time is saved so (page faults), for up
    to `RESIDENT_MIB` of RSS a slot and some 30 ms when a slot is used for the first time; so only as many
    slots as short runs occupy at once are worth it, and the rest, where long streams end up, stay cold. Who
    runs in them is `warmth.py`'s to say.
    """

    instances: int = 2048
    warm: int = 8
    memory_mib: int = 1024


def code_key(compiler: Compiler) -> str:
    """Return what compiled code depends on besides the component: part of its cache key."""
    return f"wasmtime-{version('wasmtime')}-{compiler}-5"


def compile_config(compiler: Compiler) -> Config:
    """Return settings for compiling, and for running what was compiled so."""
    config = Config()
    config.epoch_interruption = True
    # Unoptimised code needs more stack than guests' own recursion limits reckon with; host functions in
    # Python run on what the fiber has beyond it.
    _ffi.wasmtime_config_max_wasm_stack_set(config.ptr(), WASM_STACK_MIB * MIB)
    _ffi.wasmtime_config_async_stack_size_set(config.ptr(), 2 * WASM_STACK_MIB * MIB)
    # With concurrency support on, a host `poll` that gets two or more borrowed pollables traps.
    _ffi.wasmtime_config_concurrency_support_set(config.ptr(), False)
    if compiler is Compiler.BASELINE:
        _ffi.wasmtime_config_strategy_set(config.ptr(), _BASELINE)
    return config


def create_engine(compiler: Compiler, instances: int, memory_mib: int, *, warm: bool) -> Engine:
    """Return an engine that runs what a compiler made, in a pool of instances."""
    config = compile_config(compiler)
    pooling = _ffi.wasmtime_pooling_allocation_config_new()
    per_instance = {
        "total_component_instances": 1,
        "total_core_instances": 16,
        "total_memories": MEMORIES_PER_INSTANCE,
        "total_tables": 8,
        "total_stacks": 1,
    }
    fixed = {
        "max_component_instance_size": MIB,
        "max_core_instance_size": MIB,
        "max_core_instances_per_component": 40,
        "max_memories_per_component": 8,
        "max_tables_per_component": 32,
        "table_elements": 60_000,
        "max_memory_size": memory_mib * MIB,
    }
    if warm:
        fixed |= {
            "linear_memory_keep_resident": WARM_RESIDENT_MIB * MIB,
            "table_keep_resident": MIB // 8,
            "async_stack_keep_resident": 32 << 10,
        }
    values = {name: count * instances for name, count in per_instance.items()} | fixed
    for name, value in values.items():
        getattr(_ffi, f"wasmtime_pooling_allocation_config_{name}_set")(pooling, value)
    _ffi.wasmtime_pooling_allocation_strategy_set(config.ptr(), pooling)
    _ffi.wasmtime_pooling_allocation_config_delete(pooling)
    return Engine(config)
