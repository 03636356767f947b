"""C callbacks around host functions `f(run, *values)`, which are plain Python without pointers.

A callback converts arguments, returns the result or a trap, and suspends calls that wait. The modules of
`engine/wasm/host/` register the functions.
"""

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from wasmtime.component import _types as types

from engine.wasm.capi.values import argument_lifter, result_encoder
from engine.wasm.capi.wasmtime import LIBRARY, block, declare, value_at
from engine.wasm.weave.builder import HOST_INTERFACE

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_error_new = declare(ctypes.PyDLL(LIBRARY), "wasmtime_error_new", _P, ctypes.c_char_p)
_continuation_at, _error_at = block(24), block(8)
_pack_continuation = struct.Struct("<QQQ").pack

CALLBACK = ctypes.CFUNCTYPE(_P, _P, _P, _P, _P, _SIZE, _P, _SIZE)
ASYNC_CALLBACK = ctypes.CFUNCTYPE(None, _P, _P, _P, _P, _SIZE, _P, _SIZE, _P, _P)
CONTINUATION = ctypes.CFUNCTYPE(ctypes.c_bool, _P)


class Waitable(Protocol):
    """A condition that a suspended guest waits for."""

    def ready(self) -> bool:
        """Return whether the waiting guest may resume."""


class Suspend:
    """Return value of a blocking host function that suspends the guest.

    When any of `sources` is ready, or at `deadline` (nanoseconds of the run's clock), `finish` is called. It
    returns the value.
    """

    __slots__ = ("deadline", "finish", "sources")

    def __init__(
        self, sources: Sequence[Waitable], finish: Callable[[], Any], deadline: int | None = None
    ) -> None:
        self.sources = sources
        self.finish = finish
        self.deadline = deadline


def _trap(run: Any, error: BaseException) -> int:
    """Store the cause of a trap and return the error that ends the guest."""
    run.failure = error.with_traceback(None)  # Its frames refer to the run.
    return int(_error_new(str(error).encode() or type(error).__name__.encode()))


def host_function(
    runs: dict[int, Any], function: types.FuncType, body: Callable[..., Any], *, packed: str = ""
) -> Any:
    """Return the C callback of a host function that never waits.

    `packed` is "arguments" or "result" if these carry bytes, see `values.py`.
    """
    arguments = argument_lifter(function, packed=packed == "arguments")
    encode = result_encoder(function.result, packed=packed == "result")

    def callback(_d: int, context: int, _t: int, args: int, _n: int, results: int, _nr: int) -> int | None:
        run = runs[context]
        try:
            value = body(run, *arguments(args))
            if encode is not None:
                value_at(results).raw = encode(run.scratch, value)
        except BaseException as error:
            return _trap(run, error)
        return None

    return CALLBACK(callback)


def blocking_function(runs: dict[int, Any], function: types.FuncType, body: Callable[..., Any]) -> Any:
    """Return the C callback of a host function that may return `Suspend`."""
    arguments, encode = argument_lifter(function), result_encoder(function.result)
    key = id(runs)
    if key not in _continuations:
        _continuations[key] = (CONTINUATION(lambda context: runs[context].resume()), runs)
    continuation = ctypes.cast(_continuations[key][0], _P).value or 0
    assert encode is not None

    def callback(
        _d: int, context: int, _t: int, args: int, _n: int, results: int, _nr: int, error_at: int, cont: int
    ) -> None:
        run = runs[context]

        def settle(value: Any) -> bool:
            """Write the result and return `True`, or store the Suspend and return `False`."""
            if type(value) is Suspend:
                run.wait = value
                return False
            run.wait = None
            value_at(results).raw = encode(run.scratch, value)
            return True

        def resume() -> bool:
            """Continue the suspended call; return whether it is complete."""
            try:
                return run.is_ready() and settle(run.wait.finish())
            except BaseException as error:
                run.wait = None
                _error_at(error_at).raw = struct.pack("<Q", _trap(run, error))
                return True

        try:
            if settle(body(run, *arguments(args))):
                _continuation_at(cont).raw = _DONE
                return
            run.resume = resume
            _continuation_at(cont).raw = _pack_continuation(continuation, context, 0)
        except BaseException as error:
            _error_at(error_at).raw = struct.pack("<Q", _trap(run, error))
            _continuation_at(cont).raw = _DONE

    return ASYNC_CALLBACK(callback)


_continuations: dict[int, Any] = {}


_always = CONTINUATION(lambda _context: True)
_DONE = _pack_continuation(ctypes.cast(_always, _P).value or 0, 0, 0)


HostBody = Callable[..., Any]
_F = TypeVar("_F", bound=HostBody)


@dataclass(frozen=True, slots=True)
class HostFunction:
    """`body(run, *arguments)` returns the value; a blocking function may return `Suspend`.

    The arguments or the result of a `packed` function carry bytes (`capi/values.py`).
    """

    body: HostBody
    blocking: bool
    packed: Literal["", "arguments", "result"] = ""


FUNCTIONS: dict[str, HostFunction] = {}
"""Functions by `<interface>#<name>`, without a version."""


def host(
    name: str,
    *,
    interface: str = HOST_INTERFACE,
    blocking: bool = False,
    packed: Literal["", "arguments", "result"] = "",
) -> Callable[[_F], _F]:
    """Register a function of an interface."""

    def register(body: _F) -> _F:
        FUNCTIONS[f"{interface}#{name}"] = HostFunction(body, blocking, packed)
        return body

    return register
