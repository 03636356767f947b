"""Registry of host functions, filled by the other modules of this package."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from engine.wasm.weave.builder import HOST_INTERFACE

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
