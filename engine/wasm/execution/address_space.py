"""Pool size that fits the address space of the process.

wasmtime reserves the range of a 32-bit address for every memory of a pool, and aborts the process if that
fails. A limit on the address space therefore allows fewer instances.
"""

import mmap
from dataclasses import replace

from engine.errors import SvcError
from engine.wasm.execution.config import MEMORIES_PER_INSTANCE, MIB, Compiler, PoolSettings

MIN_INSTANCES = 8
"""Smallest usable pool."""
_MEMORY_BYTES = (4096 + 64) * MIB
"""Address space of one memory with its guard regions."""


def fit_pool(settings: PoolSettings) -> PoolSettings:
    """Return the settings with the number of instances halved until the reservation succeeds.

    Each compiler's code has a pool of its own. Raises `SvcError` below MIN_INSTANCES.
    """
    instances = settings.instances
    while not _has_room(len(Compiler) * instances * MEMORIES_PER_INSTANCE * _MEMORY_BYTES):
        instances //= 2
        if instances < MIN_INSTANCES:
            raise SvcError(
                "the address space of this process is too small to run guests",
                "Check the limit with `ulimit -v`; remove it with `ulimit -v unlimited`.",
            )
    return settings if instances == settings.instances else replace(settings, instances=instances)


def _has_room(size: int) -> bool:
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except (OSError, OverflowError):
        return False
    return True
