"""wasmtime configuration, shared by the process that compiles and the one that runs.

Compiled code loads only if the settings that shape it (`code_key` of `compile/compilers.py`) are equal.
"""

from dataclasses import dataclass

from wasmtime import Config, Engine, _ffi

from engine.wasm.binary.reader import MAX_MEMORIES
from engine.wasm.compile.compilers import Compiler

MIB = 1 << 20
WARM_RESIDENT_MIB = 16
WASM_STACK_MIB = 2
TABLE_ELEMENTS = 60_000
"""Maximum elements of each table."""
MEMORIES_PER_INSTANCE = 3
"""Maximum average number of memories per instance."""
COMPONENT_LIMITS = {
    "max_component_instance_size": MIB,
    "max_core_instance_size": MIB,
    "max_core_instances_per_component": 40,
    "max_memories_per_module": 1,
    "max_memories_per_component": MAX_MEMORIES,
    "max_tables_per_module": 1,
    "max_tables_per_component": 32,
    "table_elements": TABLE_ELEMENTS,
}
"""Limits of a component with the WASI library, sizes in bytes."""
_BASELINE = 2  # wasmtime_strategy_t


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Size of the instance pool: `instances` at once, each memory at most `memory_mib`.

    An unused slot costs address space and one kilobyte, so the default allows a thousand streams besides
    short requests.

    `warm` slots retain the memory touched by an instance and reset it for the next one, instead of returning
    it to the operating system. That avoids page faults, a third of the time of a short run. It costs up to
    `WARM_RESIDENT_MIB` of RSS per slot, and about 30 ms at the first use of a slot. So only as many slots are
    warm as short runs occupy at once; long streams end up in the cold ones. `WarmSlotPolicy` decides which
    components use warm slots.
    """

    instances: int = 2048
    warm: int = 8
    memory_mib: int = 1024


def compile_config(compiler: Compiler) -> Config:
    """Return the settings to compile with a compiler, and to run its code."""
    config = Config()
    config.epoch_interruption = True
    # Unoptimized code needs more stack than guests' own recursion limits assume. Host functions in Python
    # run on the fiber's additional stack.
    _ffi.wasmtime_config_max_wasm_stack_set(config.ptr(), WASM_STACK_MIB * MIB)
    _ffi.wasmtime_config_async_stack_size_set(config.ptr(), 2 * WASM_STACK_MIB * MIB)
    # With concurrency support, a host `poll` traps if it receives two or more borrowed pollables.
    _ffi.wasmtime_config_concurrency_support_set(config.ptr(), False)
    # Objects and exceptions would be in a heap of their own, which no guest can measure.
    _ffi.wasmtime_config_wasm_gc_set(config.ptr(), False)
    _ffi.wasmtime_config_wasm_exceptions_set(config.ptr(), False)
    if compiler is Compiler.BASELINE:
        _ffi.wasmtime_config_strategy_set(config.ptr(), _BASELINE)
    return config


def create_engine(compiler: Compiler, instances: int, memory_mib: int, *, warm: bool) -> Engine:
    """Return an engine with a pool of instances for one compiler's code."""
    config = compile_config(compiler)
    pooling = _ffi.wasmtime_pooling_allocation_config_new()
    per_instance = {
        "total_component_instances": 1,
        "total_core_instances": 16,
        "total_memories": MEMORIES_PER_INSTANCE,
        "total_tables": 8,
        "total_stacks": 1,
    }
    fixed = COMPONENT_LIMITS | {"max_memory_size": memory_mib * MIB}
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
