"""The subset of the wasmtime C API used by this engine: stores, instances and calls in progress.

All foreign functions are declared here, except those that encode values (`values.py`). Pointers leave this
module as plain integers. Signatures: wasmtime's C headers, version 50 (`component/*.h`, `async.h`,
`store.h`).

The library is loaded twice: `_holding_gil` for calls of about a microsecond, `_releasing_gil` for calls that
run guest code.
"""

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from wasmtime import _ffi

LIBRARY = str(_ffi.filename)
_holding_gil = ctypes.PyDLL(LIBRARY)
_releasing_gil = ctypes.CDLL(LIBRARY)
_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t


def declare(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Return a foreign function with its signature set."""
    function = library[name]
    function.restype = result
    function.argtypes = list(arguments)
    return function


_declare = partial(declare, _holding_gil)
_store_new = _declare("wasmtime_store_new", _P, _P, _P, _P)
_store_context = _declare("wasmtime_store_context", _P, _P)
_store_delete = declare(_releasing_gil, "wasmtime_store_delete", None, _P)
_store_limiter = _declare("wasmtime_store_limiter", None, _P, *[ctypes.c_int64] * 5)
increment_epoch = _declare("wasmtime_engine_increment_epoch", None, _P)
"""Increments the epoch of the engine at an address. Callable from any thread."""
_set_epoch_deadline = _declare("wasmtime_context_set_epoch_deadline", None, _P, ctypes.c_uint64)
# The header declares an error as result, but the library returns nothing: ignore the result.
_yield_and_update = _declare(
    "wasmtime_context_epoch_deadline_async_yield_and_update", None, _P, ctypes.c_uint64
)
_instantiate_async = _declare("wasmtime_component_linker_instantiate_async", _P, _P, _P, _P, _P, _P)
_get_func = _declare("wasmtime_component_instance_get_func", ctypes.c_bool, _P, _P, _P, _P)
_call_async = _declare("wasmtime_component_func_call_async", _P, _P, _P, _P, _SIZE, _P, _SIZE, _P)
_future_poll = declare(_releasing_gil, "wasmtime_call_future_poll", ctypes.c_bool, _P)
_future_delete = declare(_releasing_gil, "wasmtime_call_future_delete", None, _P)
_val_delete = _declare("wasmtime_component_val_delete", None, _P)
_error_message = _declare("wasmtime_error_message", None, _P, _P)
_error_delete = _declare("wasmtime_error_delete", None, _P)
_byte_vec_delete = _declare("wasm_byte_vec_delete", None, _P)
_add_func = _declare(
    "wasmtime_component_linker_instance_add_func", _P, _P, ctypes.c_char_p, _SIZE, _P, _P, _P
)
_add_func_async = _declare(
    "wasmtime_component_linker_instance_add_func_async", _P, _P, ctypes.c_char_p, _SIZE, _P, _P, _P
)

VALUE_SIZE = 32  # sizeof(wasmtime_component_val_t)
_SMALL_BYTES = 512
# Cached: ctypes creates an array type again after the last reference to it is collected.
PAIR = ctypes.c_uint64 * 2
_VALUE = ctypes.c_uint64 * (VALUE_SIZE // 8)
_UNLIMITED = ctypes.c_int64(-1)


@cache
def _char_array(count: int) -> Any:
    return ctypes.c_char * count


def block(size: int) -> Any:
    """Return `f(address)` whose result's `raw` reads and writes `size` bytes at the address.

    This takes a third of the time of a foreign function such as memmove. Use it for few distinct sizes.
    """
    return _char_array(size).from_address


value_at = block(VALUE_SIZE)


def bytes_at(address: int, size: int) -> bytes:
    """Return a copy of the bytes at an address."""
    if size > _SMALL_BYTES:
        return ctypes.string_at(address, size)
    data: bytes = _char_array(size).from_address(address).raw
    return data


def write_at(address: int, data: bytes) -> None:
    if len(data) > _SMALL_BYTES:
        ctypes.memmove(address, data, len(data))
    else:
        _char_array(len(data)).from_address(address).raw = data


class WasmtimeApiError(Exception):
    """wasmtime rejected a call; the text is its message."""


def address(managed: Any) -> int:
    """Return the address of one of wasmtime-py's managed objects."""
    return ctypes.cast(managed.ptr(), _P).value or 0


def _take_error(pointer: int | None) -> str | None:
    """Return an error's text and free it."""
    if not pointer:
        return None
    message = PAIR()
    _error_message(pointer, ctypes.addressof(message))
    text = ctypes.string_at(message[1], message[0]).decode(errors="replace")
    _byte_vec_delete(ctypes.addressof(message))
    _error_delete(pointer)
    return text


def add_function(instance: Any, name: str, callback: Any, *, blocking: bool) -> None:
    """Define a host function of an imported interface of an open Linker.

    `callback` (from `host_functions`) must outlive the Linker. Raises `WasmtimeApiError`.
    """
    raw = name.encode()
    add = _add_func_async if blocking else _add_func
    text = _take_error(add(address(instance), raw, len(raw), ctypes.cast(callback, _P), None, None))
    if text is not None:
        raise WasmtimeApiError(text)


class Store:
    """A wasmtime store, which holds one instance. After a trap, only `close` is allowed."""

    __slots__ = ("_pointer", "context")

    def __init__(self, engine: int, *, memory_limit: int, table_limit: int) -> None:
        """Create a store of the engine at an address.

        `memory_limit` in bytes applies to each memory, `table_limit` in elements to each table.

        Its instance yields at every epoch.
        """
        self._pointer = _store_new(engine, None, None)
        self.context: int = _store_context(self._pointer)
        _store_limiter(self._pointer, memory_limit, table_limit, _UNLIMITED, _UNLIMITED, _UNLIMITED)
        _set_epoch_deadline(self.context, 1)
        _yield_and_update(self.context, 1)

    def close(self) -> None:
        """Free the store and its contents; calls in progress must be closed first."""
        if self._pointer:
            _store_delete(self._pointer)
            self._pointer = None


class _Words(ctypes.Structure):
    """Places that wasmtime reads and writes during an invocation."""

    _fields_ = (
        ("instance", _ffi.wasmtime_component_instance_t),
        ("function", _ffi.wasmtime_component_func_t),
        ("error", _P),
        ("argument", _VALUE),
        ("result", _VALUE),
    )


_FUNCTION, _ERROR = _Words.function.offset, _Words.error.offset
_ARGUMENT, _RESULT = _Words.argument.offset, _Words.result.offset


class Invocation:
    """A new instance of a component, then a call of one of its exports, behind one `poll`.

    It runs on a fiber, which advances when polled, from any thread, one thread at a time.
    """

    __slots__ = ("_argument", "_at", "_called", "_context", "_export", "_future", "_prepare", "_words")

    def __init__(
        self,
        context: int,
        linker: int,
        component: int,
        export: int,
        argument: Callable[[], bytes],
        *,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """Start in the store of `context`. The export takes a string and returns a `u32`.

        `argument` is called once the instance exists, and returns the encoded string. `prepare` is called
        before each step until then, on the same thread. The others are addresses.
        """
        self._context, self._export, self._argument = context, export, argument
        self._prepare = prepare
        self._called = False
        self._words = _Words()
        self._at = at = ctypes.addressof(self._words)
        self._future: int | None = _instantiate_async(linker, context, component, at, at + _ERROR)

    def poll(self) -> bool:
        """Run guest code until it completes (`True`), waits in a host call, or an epoch passes (`False`).

        Raises `WasmtimeApiError` if the export cannot be called.
        """
        if self._prepare is not None and not self._called:
            self._prepare()
        if not _future_poll(self._future):
            return False
        if self._called:
            return True
        self._free()
        if self._words.error:
            return True
        at, context = self._at, self._context
        if not _get_func(at, context, self._export, at + _FUNCTION):
            raise WasmtimeApiError("the component does not export this function")
        value_at(at + _ARGUMENT).raw = self._argument()
        self._called = True
        self._future = _call_async(at + _FUNCTION, context, at + _ARGUMENT, 1, at + _RESULT, 1, at + _ERROR)
        return bool(_future_poll(self._future))

    def _free(self) -> None:
        _future_delete(self._future)
        self._future = None

    def close(self) -> str | None:
        """Abort what is still running and free it; return its error text, if any."""
        if self._future is not None:
            self._free()
            if self._called:
                _val_delete(self._at + _ARGUMENT)
        text = _take_error(self._words.error)
        self._words.error = None
        return text

    @property
    def result(self) -> int:
        """The `u32` result of the completed call."""
        return int(self._words.result[1]) & 0xFFFFFFFF
