"""C callbacks around host functions `f(run, *values)`, which are plain Python without pointers.

A callback converts arguments, returns the result or a trap, and suspends calls that wait.
"""

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from wasmtime.component import _types as types

from engine.wasm.capi.ascii_packing import packed_arguments, packed_result
from engine.wasm.capi.values import Err, argument_lifter, result_encoder, value_at
from engine.wasm.capi.wasmtime import LIBRARY, block

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_error_new = ctypes.PyDLL(LIBRARY)["wasmtime_error_new"]
_error_new.restype = _P
_error_new.argtypes = [ctypes.c_char_p]
_continuation_at, _error_at = block(24), block(8)
_pack_continuation = struct.Struct("<QQQ").pack

CALLBACK = ctypes.CFUNCTYPE(_P, _P, _P, _P, _P, _SIZE, _P, _SIZE)
ASYNC_CALLBACK = ctypes.CFUNCTYPE(None, _P, _P, _P, _P, _SIZE, _P, _SIZE, _P, _P)
CONTINUATION = ctypes.CFUNCTYPE(ctypes.c_bool, _P)
DESTRUCTOR = ctypes.CFUNCTYPE(_P, _P, _P, ctypes.c_uint32)


class Waitable(Protocol):
    """A condition that a suspended guest waits for."""

    def ready(self) -> bool:
        """Return whether the waiting guest may resume."""


class Suspend:
    """Return value of a blocking host function that suspends the guest.

    When any of `sources` is ready, `finish` is called. It returns the value, raises `Err`, or returns another
    `Suspend`.
    """

    __slots__ = ("finish", "sources")

    def __init__(self, sources: Sequence[Waitable], finish: Callable[[], Any]) -> None:
        self.sources = sources
        self.finish = finish


def _trap(handles: Any, error: BaseException) -> int:
    """Store the cause of a trap and return the error that ends the guest."""
    handles.failure = error
    return int(_error_new(str(error).encode() or type(error).__name__.encode()))


def _converters(function: types.FuncType, packed: bool) -> tuple[Any, Any, Any]:
    """Return the converters of arguments, of the value and of the error."""
    if packed:
        return packed_arguments(function), *packed_result(function)
    return argument_lifter(function), *result_encoder(function)


def host_function(
    runs: dict[int, Any], function: types.FuncType, body: Callable[..., Any], *, packed: bool = False
) -> Any:
    """Return the C callback of a host function that never waits."""
    arguments, encode, encode_error = _converters(function, packed)

    def callback(_d: int, context: int, _t: int, args: int, _n: int, results: int, _nr: int) -> int | None:
        run = runs[context]
        try:
            try:
                encoded = encode(run, body(run, *arguments(run, args)))
            except Err as error:
                encoded = encode_error(run, error.value)
            if encoded is not None:
                value_at(results).raw = encoded
        except BaseException as error:
            return _trap(run, error)
        return None

    return CALLBACK(callback)


def blocking_function(
    runs: dict[int, Any], function: types.FuncType, body: Callable[..., Any], *, packed: bool = False
) -> Any:
    """Return the C callback of a host function that may return `Suspend`."""
    arguments, encode, encode_error = _converters(function, packed)
    continuation = _continuation(runs)

    def settle(run: Any, results: int, compute: Callable[..., Any], *values: Any) -> bool:
        """Call `compute`; write the result and return `True`, or store the Suspend and return `False`."""
        try:
            value = compute(*values)
            if type(value) is Suspend:
                run.wait = value
                return False
            encoded = encode(run, value)
        except Err as error:
            encoded = encode_error(run, error.value)
        run.wait = None
        if encoded is not None:
            value_at(results).raw = encoded
        return True

    def callback(
        _d: int, context: int, _t: int, args: int, _n: int, results: int, _nr: int, error_at: int, cont: int
    ) -> None:
        run = runs[context]

        def resume() -> bool:
            """Continue the suspended call; return whether it is complete."""
            if not any(source.ready() for source in run.wait.sources):
                return False
            try:
                return settle(run, results, run.wait.finish)
            except BaseException as error:
                run.wait = None
                _error_at(error_at).raw = struct.pack("<Q", _trap(run, error))
                return True

        try:
            if settle(run, results, body, run, *arguments(run, args)):
                _continuation_at(cont).raw = _DONE
                return
            run.resume = resume
            _continuation_at(cont).raw = _pack_continuation(continuation, context, 0)
        except BaseException as error:
            _error_at(error_at).raw = struct.pack("<Q", _trap(run, error))
            _continuation_at(cont).raw = _DONE

    return ASYNC_CALLBACK(callback)


_continuations: dict[int, Any] = {}


def _continuation(runs: dict[int, Any]) -> int:
    """Return the address of the C continuation shared by all runs of a table."""
    key = id(runs)
    if key not in _continuations:
        _continuations[key] = (CONTINUATION(lambda context: runs[context].resume()), runs)
    return ctypes.cast(_continuations[key][0], _P).value or 0


_always = CONTINUATION(lambda _context: True)
_DONE = _pack_continuation(ctypes.cast(_always, _P).value or 0, 0, 0)


def destructor(runs: dict[int, Any]) -> Any:
    """Return the C destructor of host resources: call `drop(run)`, if any, and release the object."""

    def drop(_data: int, context: int, number: int) -> int | None:
        run = runs.get(context)
        item = run.table.pop(number, None) if run is not None else None
        closing = getattr(item, "drop", None)
        if closing is not None:
            try:
                closing(run)
            except BaseException as error:
                return _trap(run, error)
        return None

    return DESTRUCTOR(drop)
