"""Registry of host functions and host resource types, filled by the other modules of this package.

A function is registered as `<package>/<interface>#<name>` without a version: all 0.2.x guests share it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from wasmtime.component import ResourceType

HostBody = Callable[..., Any]
_F = TypeVar("_F", bound=HostBody)
_C = TypeVar("_C", bound=type)


@dataclass(frozen=True, slots=True)
class HostFunction:
    """`body(run, *arguments)` returns the value or raises `Err`; a blocking function may return `Suspend`.

    The bytes of a `packed` function cross the host boundary as strings (`capi/ascii_packing.py`).
    """

    body: HostBody
    blocking: bool
    packed: bool = False


FUNCTIONS: dict[str, HostFunction] = {}
RESOURCES: dict[str, ResourceType] = {}
# Interfaces give some resources a second name: `use error.{error as io-error}`, `type headers = fields`.
ALIASES = {"headers": "fields", "trailers": "fields", "io-error": "error"}


def host(interface: str, *names: str, blocking: bool = False, packed: bool = False) -> Callable[[_F], _F]:
    """Register a function of an interface, under each of `names`."""

    def register(body: _F) -> _F:
        for name in names:
            FUNCTIONS[f"{interface}#{name}"] = HostFunction(body, blocking, packed)
        return body

    return register


def method(interface: str, resource: str, *names: str, blocking: bool = False) -> Callable[[_F], _F]:
    """Register a method of a resource, under each of `names`."""
    return host(interface, *(f"[method]{resource}.{name}" for name in names), blocking=blocking)


def getter(interface: str, resource: str, name: str, attribute: str) -> None:
    """Register a method that returns an attribute of its resource."""
    read = attrgetter(attribute)
    method(interface, resource, name)(lambda run, item: read(item))


def resource(name: str) -> Callable[[_C], _C]:
    """Register a class whose instances are handles of the resource type `name` in guests."""

    def register(cls: _C) -> _C:
        cls.TYPE = len(RESOURCES) + 1  # type: ignore[attr-defined]
        # Never release it: wasmtime would use a collected ResourceType after free.
        RESOURCES[name] = ResourceType.host(cls.TYPE)  # type: ignore[attr-defined]
        return cls

    return register


def resources_without_instances(*names: str) -> None:
    """Register resource types that interfaces mention, but that no guest can hold."""
    for name in names:
        resource(name)(type(name, (), {}))
