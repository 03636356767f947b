"""How many instances the address space has room for. Reserves and gives back; keeps nothing.

The library reserves for every memory of a pool what a 32-bit address can reach, and ends the process where it
can not. A limit on a process's address space, or a small one, leaves room for fewer instances.
"""

import mmap
from dataclasses import replace

from engine.errors import SvcError
from engine.wasm.execution.config import MEMORIES_PER_INSTANCE, MIB, Compiler, PoolSettings

MIN_INSTANCES = 8
_MEMORY_BYTES = (4096 + 64) * MIB
"""Address space of one memory, with what guards it."""


def fit_pool(settings: PoolSettings) -> PoolSettings:
    """Return the settings with as many instances as there is room for, halved until they fit.

    Each compiler's code has a pool of its own. Raises `SvcError` where hardly any would fit.
    """
    instances = settings.instances
    while not _has_room(len(Compiler) * instances * MEMORIES_PER_INSTANCE * _MEMORY_BYTES):
        instances //= 2
        if instances < MIN_INSTANCES:
            raise SvcError(
                "the address space of this process is too small to run guests",
                "`ulimit -v` shows its limit; `ulimit -v unlimited` removes it.",
            )
    return settings if instances == settings.instances else replace(settings, instances=instances)


def _has_room(size: int) -> bool:
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except (OSError, OverflowError):
        return False
    return True
