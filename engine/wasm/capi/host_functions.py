"""Host functions as the library calls them: C callbacks around plain Python.

Owns what stands between a guest's call and a host function `f(run, *values)`, which never sees a pointer:
arguments in, result or trap out, and the suspension of a call that has to wait. Values are `codec.py`'s.
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
    """Something that a guest can wait for."""

    def ready(self) -> bool:
        """Whether a guest that waits for this may go on."""
        ...


class Suspend:
    """What a blocking host function returns to suspend the guest.

    When any of `sources` is ready, `finish` is called: it returns the value, raises `Err`, or returns
    another `Wait`.
    """

    __slots__ = ("finish", "sources")

    def __init__(self, sources: Sequence[Waitable], finish: Callable[[], Any]) -> None:
        self.sources = sources
        self.finish = finish


def _trap(handles: Any, error: BaseException) -> int:
    """Note why a host function ended the guest and return the error that does it."""
    handles.failure = error
    return int(_error_new(str(error).encode() or type(error).__name__.encode()))


def _converters(function: types.FuncType, packed: bool) -> tuple[Any, Any, Any]:
    """Return how arguments come in, and how a value and an error go out."""
    if packed:
        return packed_arguments(function), *packed_result(function)
    return argument_lifter(function), *result_encoder(function)


def host_function(
    runs: dict[int, Any], function: types.FuncType, body: Callable[..., Any], *, packed: bool = False
) -> Any:
    """Make the C callback of a host function that never waits."""
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
    """Make the C callback of a host function that may return `Wait`."""
    arguments, encode, encode_error = _converters(function, packed)
    continuation = _continuation(runs)

    def settle(run: Any, results: int, compute: Callable[..., Any], *values: Any) -> bool:
        """Compute; write the result and return `True`, or note what to wait for and return `False`."""
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
            """Go on with the suspended call: whether it is over."""
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
    """Return the address of the one C continuation that serves a table of runs."""
    key = id(runs)
    if key not in _continuations:
        _continuations[key] = (CONTINUATION(lambda context: runs[context].resume()), runs)
    return ctypes.cast(_continuations[key][0], _P).value or 0


_always = CONTINUATION(lambda _context: True)
_DONE = _pack_continuation(ctypes.cast(_always, _P).value or 0, 0, 0)


def destructor(runs: dict[int, Any]) -> Any:
    """Make the C destructor of host resources: it forgets the object, after its `drop(run)` if it has one."""

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
