"""Linking of compiled components: imports are bound to host functions.

`compile/check.py` decides which imports are allowed.
"""

from typing import Any

from wasmtime import Engine
from wasmtime.component import Component, Linker, ResourceType
from wasmtime.component import _types as types

from engine.errors import SvcError
from engine.wasm.binary.fast_streams.analysis import STREAMS
from engine.wasm.binary.fast_streams.modules import FAST_STREAMS
from engine.wasm.binary.memory_probe import METERED_HANDLE
from engine.wasm.capi import host_functions
from engine.wasm.capi.type_budget import bounded_types, count_parts
from engine.wasm.capi.wasmtime import LinkerInstance, address, interface_counts, item_count
from engine.wasm.compile.check import check_names, interface_name
from engine.wasm.compile.component_file import ComponentRejected
from engine.wasm.execution.run_state import Trap
from engine.wasm.wasi.registry import ALIASES, FUNCTIONS, RESOURCES, HostFunction

MAX_INTERFACES = 1000


class LinkedComponent:
    """A component that can be instantiated any number of times; attributes are addresses for the C API."""

    def __init__(self, component: Component, engine: Engine, runs: dict[int, Any]) -> None:
        """Bind every import; `runs` maps a store's context to its run during the run's lifetime.

        Raises `ComponentRejected` for a component without a handler or with unavailable imports.
        """
        linker = Linker(engine)
        self._references: list[Any] = [engine, component, linker]
        self.engine, self.component, self.linker = address(engine), address(component), address(linker)
        try:
            self._link(component, engine, linker, runs)
        except SvcError:
            raise
        except Exception as error:  # Of any kind: the component's types can be anything.
            raise ComponentRejected(
                f"the component cannot be linked: {error}", "Use the types of WASI 0.2 for its imports."
            ) from error

    def _link(self, component: Component, engine: Engine, linker: Linker, runs: dict[int, Any]) -> None:
        if max(interface_counts(component, engine)) > MAX_INTERFACES:
            raise ComponentRejected(
                f"the component has more than {MAX_INTERFACES} imports or exports",
                "Import what it uses only.",
            )
        exports = component.type.exports(engine)
        imports = component.type.imports(engine)
        handler = check_names(imports, exports)
        patched = any(interface_name(name) == FAST_STREAMS for name in imports)
        self.metered = METERED_HANDLE in exports
        if self.metered and not _is_probe(exports[METERED_HANDLE].ty):
            raise ComponentRejected(f"the component uses the reserved name {METERED_HANDLE}", "Rename it.")
        outer = None if self.metered else component.get_export_index(handler)
        self.handle = self._export(component, METERED_HANDLE if self.metered else "handle", outer)
        with linker.root() as root, bounded_types():
            for name, extern in imports.items():
                interface: Any = extern.ty
                count_parts(item_count(interface, engine))
                with root.add_instance(name) as instance:
                    self._bind(
                        interface_name(name),
                        LinkerInstance(instance),
                        interface.exports(engine),
                        runs,
                        patched,
                    )

    def _export(self, component: Component, name: str, outer: Any = None) -> int:
        index = component.get_export_index(name, outer)
        self._references.append(index)
        return address(index)

    def _bind(
        self, base: str, target: LinkerInstance, items: dict[str, Any], runs: dict[int, Any], patched: bool
    ) -> None:
        for name, item in items.items():
            kind = item.ty
            if isinstance(kind, ResourceType):
                drop = host_functions.destructor(runs)
                self._references.append(drop)
                target.add_resource(name, RESOURCES[ALIASES.get(name, name)], drop)
            elif isinstance(kind, types.FuncType):
                function = FUNCTIONS.get(f"{base}#{name}") or _unavailable(f"{base}#{name}")
                if patched and base == STREAMS:
                    function = FUNCTIONS.get(f"{FAST_STREAMS}#{name}", function)
                make = host_functions.blocking_function if function.blocking else host_functions.host_function
                callback = make(runs, kind, function.body, packed=function.packed)
                self._references.append(callback)
                target.add_func(name, callback, blocking=function.blocking)


def _is_probe(function: Any) -> bool:
    """Return whether an item has the type of the probe's function, whose result is read without a check."""
    return (
        isinstance(function, types.FuncType)
        and [type(kind) for _, kind in function.params] == [types.OwnType] * 2
        and isinstance(function.result, types.U32)
    )


def _unavailable(name: str) -> HostFunction:
    """Return a function that traps, for methods that need a handle no guest can hold."""

    def body(run: Any, *_arguments: Any) -> None:
        raise Trap(f"{name} is not available")

    return HostFunction(body, blocking=False)
