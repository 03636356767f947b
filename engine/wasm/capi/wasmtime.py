"""The wasmtime C API as this engine uses it: stores, instances and calls in flight.

Owns every foreign function that is not part of a value's encoding (those are in `codec.py`). Pointers
leave this file as plain integers. Signatures: wasmtime's C headers, version 50 (`component/*.h`,
`async.h`, `store.h`).

Two handles on the one library: `_short` keeps the GIL for calls of about a microsecond, `_long` releases
it for those that run guest code.
"""

import ctypes
from functools import cache
from typing import Any

from wasmtime import _ffi
from wasmtime.component import ResourceType

LIBRARY = str(_ffi.filename)
_holding_gil = ctypes.PyDLL(LIBRARY)
_releasing_gil = ctypes.CDLL(LIBRARY)
_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t


def _declare(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = library[name]
    function.restype = result
    function.argtypes = list(arguments)
    return function


_store_new = _declare(_holding_gil, "wasmtime_store_new", _P, _P, _P, _P)
_store_context = _declare(_holding_gil, "wasmtime_store_context", _P, _P)
_store_delete = _declare(_releasing_gil, "wasmtime_store_delete", None, _P)
_store_limiter = _declare(_holding_gil, "wasmtime_store_limiter", None, _P, *[ctypes.c_int64] * 5)
_increment_epoch = _declare(_holding_gil, "wasmtime_engine_increment_epoch", None, _P)
_set_epoch_deadline = _declare(_holding_gil, "wasmtime_context_set_epoch_deadline", None, _P, ctypes.c_uint64)
# The header promises an error, the library returns nothing: what comes back is not to be looked at.
_yield_and_update = _declare(
    _holding_gil, "wasmtime_context_epoch_deadline_async_yield_and_update", None, _P, ctypes.c_uint64
)
_instantiate_async = _declare(
    _holding_gil, "wasmtime_component_linker_instantiate_async", _P, _P, _P, _P, _P, _P
)
_get_func = _declare(_holding_gil, "wasmtime_component_instance_get_func", ctypes.c_bool, _P, _P, _P, _P)
_call_async = _declare(
    _holding_gil, "wasmtime_component_func_call_async", _P, _P, _P, _P, _SIZE, _P, _SIZE, _P
)
_future_poll = _declare(_releasing_gil, "wasmtime_call_future_poll", ctypes.c_bool, _P)
_future_delete = _declare(_releasing_gil, "wasmtime_call_future_delete", None, _P)
_val_delete = _declare(_holding_gil, "wasmtime_component_val_delete", None, _P)
_error_message = _declare(_holding_gil, "wasmtime_error_message", None, _P, _P)
_error_delete = _declare(_holding_gil, "wasmtime_error_delete", None, _P)
_byte_vec_delete = _declare(_holding_gil, "wasm_byte_vec_delete", None, _P)
_add_resource = _declare(
    _holding_gil,
    "wasmtime_component_linker_instance_add_resource",
    _P,
    _P,
    ctypes.c_char_p,
    _SIZE,
    _P,
    _P,
    _P,
    _P,
)
_add_func = _declare(
    _holding_gil, "wasmtime_component_linker_instance_add_func", _P, _P, ctypes.c_char_p, _SIZE, _P, _P, _P
)
_add_func_async = _declare(
    _holding_gil,
    "wasmtime_component_linker_instance_add_func_async",
    _P,
    _P,
    ctypes.c_char_p,
    _SIZE,
    _P,
    _P,
    _P,
)

VALUE_SIZE = 32  # sizeof(wasmtime_component_val_t)
_SMALL_BYTES = 512
# Types are made once: each would otherwise be made anew when the last one is collected.
PAIR = ctypes.c_uint64 * 2
_VALUE = ctypes.c_uint64 * 4
_UNLIMITED = ctypes.c_int64(-1)


@cache
def _char_array(count: int) -> Any:
    return ctypes.c_char * count


def block(size: int) -> Any:
    """Return `f(address)` whose result's `raw` is the bytes there, to read and to write, so many of them.

    It takes a third of the time of a foreign function such as memmove. For sizes that are known or few.
    """
    return _char_array(size).from_address


def bytes_at(address: int, size: int) -> bytes:
    """Return a copy of the bytes at an address."""
    if size > _SMALL_BYTES:
        return ctypes.string_at(address, size)
    data: bytes = _char_array(size).from_address(address).raw
    return data


def write_at(address: int, data: bytes) -> None:
    """Copy bytes to an address."""
    if len(data) > _SMALL_BYTES:
        ctypes.memmove(address, data, len(data))
    else:
        _char_array(len(data)).from_address(address).raw = data


class WasmtimeApiError(Exception):
    """The library refused a call; the text is its own."""


def address(managed: Any) -> int:
    """Return the address behind one of wasmtime-py's managed objects."""
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


def _check(pointer: int | None) -> None:
    text = _take_error(pointer)
    if text is not None:
        raise WasmtimeApiError(text)


def increment_epoch(engine: int) -> None:
    """Move the epoch of the engine at an address on; callable from any thread."""
    _increment_epoch(engine)


class LinkerInstance:
    """One imported interface on a Linker, filled function by function. Use while the Linker is open."""

    def __init__(self, instance: Any) -> None:
        self._pointer = address(instance)

    def add_resource(self, name: str, resource: ResourceType, destructor: Any) -> None:
        """Define a host resource type; `destructor` is a `codec.DESTRUCTOR` and must outlive the Linker."""
        raw = name.encode()
        _check(
            _add_resource(
                self._pointer, raw, len(raw), address(resource), ctypes.cast(destructor, _P), None, None
            )
        )

    def add_func(self, name: str, callback: Any, *, blocking: bool) -> None:
        """Define a host function; `callback` (made by `codec`) must outlive the Linker."""
        raw = name.encode()
        add = _add_func_async if blocking else _add_func
        _check(add(self._pointer, raw, len(raw), ctypes.cast(callback, _P), None, None))


class Store:
    """One store: the home of one instance. Never touch it after a trap, except to close it."""

    __slots__ = ("_pointer", "context")

    def __init__(self, engine: int, *, memory_limit: int) -> None:
        """Make a store of the engine at an address; `memory_limit` in bytes, a memory.

        Its instance yields at every epoch.
        """
        self._pointer = _store_new(engine, None, None)
        self.context: int = _store_context(self._pointer)
        _store_limiter(self._pointer, memory_limit, _UNLIMITED, _UNLIMITED, _UNLIMITED, _UNLIMITED)
        _set_epoch_deadline(self.context, 1)
        _yield_and_update(self.context, 1)

    def close(self) -> None:
        """Free the store and all that lives in it; calls in flight must be closed first."""
        if self._pointer:
            _store_delete(self._pointer)
            self._pointer = None


class CallFuture:
    """A guest call in flight: a fiber that advances when polled, from any thread, one at a time."""

    __slots__ = ("_arguments", "_error", "_keep", "_pointer", "_result")

    def __init__(
        self, pointer: int, error: Any, keep: Any, arguments: Any = None, result: Any = None
    ) -> None:
        """Take a call that was started; its error goes to the PAIR `error`, its result to a value."""
        self._pointer: int | None = pointer
        self._error = error
        self._keep = keep
        self._arguments = arguments
        self._result = result

    @property
    def result_u32(self) -> int | None:
        """The `u32` that the call returned once it has come to its end; `None` for one that has none."""
        return self._result[1] & 0xFFFFFFFF if self._result is not None else None

    def poll(self) -> bool:
        """Run guest code until it ends (`True`), waits in a host call, or an epoch passes (`False`)."""
        return bool(_future_poll(self._pointer))

    def close(self) -> str | None:
        """Free the call, ending it where it stands; return the text of its error, if it had one."""
        if self._pointer:
            _future_delete(self._pointer)
            self._pointer = None
            if self._arguments is not None:
                base = ctypes.addressof(self._arguments)
                for offset in range(0, ctypes.sizeof(self._arguments), VALUE_SIZE):
                    _val_delete(base + offset)
        text = _take_error(self._error[0])
        self._error[0] = 0
        return text


class Instance:
    """A component's instance in a store, while and after it is made."""

    __slots__ = ("_context", "_instance")

    def __init__(self, context: int) -> None:
        self._context = context
        self._instance = _ffi.wasmtime_component_instance_t()

    def instantiate(self, linker: int, component: int) -> CallFuture:
        """Start making the instance; poll the returned future to its end before any other use.

        Takes addresses, as all of this class does.
        """
        error, out = PAIR(), ctypes.addressof(self._instance)
        call = _instantiate_async(linker, self._context, component, out, ctypes.addressof(error))
        return CallFuture(call, error, self)

    def _function(self, export: int) -> Any:
        function = _ffi.wasmtime_component_func_t()
        if not _get_func(ctypes.addressof(self._instance), self._context, export, ctypes.addressof(function)):
            raise WasmtimeApiError("the component does not export this function")
        return function

    def call(self, export: int, arguments: bytes, *, returns_u32: bool = False) -> CallFuture:
        """Start calling the exported function with encoded arguments (32 bytes each).

        One that is `numbered` returns a `u32`, any other nothing.
        """
        error, buffer = PAIR(), _char_array(len(arguments)).from_buffer_copy(arguments)
        function, count = self._function(export), len(arguments) // VALUE_SIZE
        result = _VALUE() if returns_u32 else None
        result_at = ctypes.addressof(result) if result is not None else None
        function_at, error_at = ctypes.addressof(function), ctypes.addressof(error)
        arguments_at = ctypes.addressof(buffer)
        call = _call_async(
            function_at, self._context, arguments_at, count, result_at, int(returns_u32), error_at
        )
        return CallFuture(call, error, (self, function), buffer, result)
