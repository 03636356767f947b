"""Callbacks by which wasmtime creates and drops the memories and the stacks of an engine's instances.

wasmtime's C headers (`config.h`) specify them. They raise no exception, which ctypes would only print.
"""

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

from wasmtime import Config

from engine.wasm.capi.wasmtime import LIBRARY, address, declare

if TYPE_CHECKING:
    from engine.wasm.execution.host_memories import HostMemories, HostMemory, RetainedStacks

_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_library = ctypes.PyDLL(LIBRARY)
_error_new = declare(_library, "wasmtime_error_new", _P, ctypes.c_char_p)
_set_creator = declare(_library, "wasmtime_config_host_memory_creator_set", None, _P, _P)
_set_stack_creator = declare(_library, "wasmtime_config_host_stack_creator_set", None, _P, _P)
_WORDS_3, _WORDS_4 = ctypes.c_uint64 * 3, ctypes.c_uint64 * 4
"""The structures of a creator and of a stack, and of a memory: a value for callbacks, and these."""


_keys = itertools.count(1)
_creators: dict[int, Any] = {}
"""The creators of engines, by keys that wasmtime passes."""
_live: "dict[int, tuple[HostMemories, HostMemory]]" = {}
"""The memories of instances, by their addresses."""
_live_stacks: "dict[int, tuple[RetainedStacks, int]]" = {}
"""The creator and the size of each stack, by its address."""


def count_memories() -> int:
    return len(_live)


def set_memory_creator(config: Config, creator: "HostMemories") -> None:
    """Map the memories of the engine with this configuration by a creator. Create only one engine."""
    _set(_set_creator, config, creator, _CREATOR_CALLBACKS)


def set_stack_creator(config: Config, creator: "RetainedStacks") -> None:
    """Map the stacks of the engine with this configuration by a creator. Create only one engine."""
    _set(_set_stack_creator, config, creator, _STACK_CREATOR_CALLBACKS)


def _set(function: Any, config: Config, creator: Any, callbacks: list[int]) -> None:
    key = next(_keys)
    _creators[key] = creator
    words = _WORDS_3(key, *callbacks)
    function(address(config), ctypes.addressof(words))


def _error(error: BaseException) -> int:
    # An exception that leaves a callback is lost, and the result 0 means success.
    return int(_error_new(f"cannot map memory: {error}".encode()))


def _get_memory(at: int, size: int, capacity: int) -> int:
    _, memory = _live[at]
    _SIZE.from_address(size).value = memory.size
    _SIZE.from_address(capacity).value = memory.reserved
    return at


def _grow_memory(at: int, size: int) -> int:
    try:
        _live[at][1].grow(size)
    except BaseException as error:
        return _error(error)
    return 0


def _on_memory_dropped(at: int) -> None:
    creator, memory = _live.pop(at)
    creator.recycle(memory)


def _new_memory(
    key: int, _type: int, minimum: int, _maximum: int, reserved: int, guard: int, result: int
) -> int:
    creator = _creators[key]
    try:
        memory = creator.create(minimum, reserved, guard)
    except BaseException as error:
        return _error(error)
    _live[memory.address] = creator, memory
    _WORDS_4.from_address(result)[:] = [memory.address, *_MEMORY_CALLBACKS]
    return 0


def _new_stack(key: int, size: int, _zeroed: bool, result: int) -> int:
    creator = _creators[key]
    try:
        at = creator.create(size)
    except BaseException as error:
        return _error(error)
    _live_stacks[at] = creator, size
    _WORDS_3.from_address(result)[:] = [at, *_STACK_CALLBACKS]
    return 0


def _get_stack(at: int, size: int) -> int:
    _, length = _live_stacks[at]
    _SIZE.from_address(size).value = length
    return at + length


def _on_stack_dropped(at: int) -> None:
    creator, size = _live_stacks.pop(at)
    creator.recycle(at, size)


_callbacks = (
    ctypes.CFUNCTYPE(_SIZE, _P, _P, *[_SIZE] * 4, _P)(_new_memory),
    ctypes.CFUNCTYPE(None, _P)(lambda key: _creators.pop(key).close()),
    ctypes.CFUNCTYPE(_SIZE, _P, _P, _P)(_get_memory),
    ctypes.CFUNCTYPE(_SIZE, _P, _SIZE)(_grow_memory),
    ctypes.CFUNCTYPE(None, _P)(_on_memory_dropped),
    ctypes.CFUNCTYPE(_SIZE, _P, _SIZE, ctypes.c_bool, _P)(_new_stack),
    ctypes.CFUNCTYPE(None, _P)(_creators.__delitem__),
    ctypes.CFUNCTYPE(_SIZE, _P, _P)(_get_stack),
    ctypes.CFUNCTYPE(None, _P)(_on_stack_dropped),
)
_pointers = [ctypes.cast(callback, _P).value or 0 for callback in _callbacks]
_CREATOR_CALLBACKS, _MEMORY_CALLBACKS = _pointers[:2], _pointers[2:5]
_STACK_CREATOR_CALLBACKS, _STACK_CALLBACKS = _pointers[5:7], _pointers[7:]
