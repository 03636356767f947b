"""Linking of compiled components: their imports are bound to host functions."""

import errno
import re
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component, Linker
from wasmtime.component import _types as types

from engine.errors import SvcError
from engine.wasm.capi import host_functions
from engine.wasm.capi.host_functions import FUNCTIONS
from engine.wasm.capi.wasmtime import Invocation, add_function, address
from engine.wasm.compile.component_file import ComponentRejected
from engine.wasm.host import doors, process, requests, streams
from engine.wasm.weave.builder import RUN

_SHORTAGE = re.compile(rf"(os error|Errno) ({errno.EMFILE}|{errno.ENFILE}|{errno.ENOMEM})\b")


class CodeRejected(SvcError):
    """A file of machine code, or of initial memory, cannot be loaded.

    `shortage` is true if this process has no descriptor or memory for it: the file may be whole.
    """

    code = "unavailable"

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.shortage = path, _SHORTAGE.search(reason) is not None
        summary = "the machine code of a component cannot be loaded"
        super().__init__(
            f"{summary}: {path}: {' '.join(reason.split())}",
            "Raise the limit of open files, or free memory."
            if self.shortage
            else "Check the disk, delete the file and start svc again.",
            public_message=summary,
        )


def load_component(engine: Engine, compiled: Path) -> Component:
    """Map a file returned by `compile_component`. Raises `CodeRejected`."""
    try:
        return Component.deserialize_file(engine, str(compiled))
    except WasmtimeError as error:
        raise CodeRejected(compiled, str(error)) from error


_REGISTERED = (doors, process, requests, streams)
"""The modules whose import fills `FUNCTIONS`."""


class LinkedComponent:
    """A component that can be instantiated any number of times; `engine` is an address for the C API."""

    def __init__(
        self, component: Component, engine: Engine, runs: dict[int, Any], *, hosted: bool = False
    ) -> None:
        """Bind every import; `runs` maps a store's context to its run during the run's lifetime.

        `hosted` is whether this host maps the memories (`execution/host_memories.py`). Raises
        `ComponentRejected` for a component that this version of svc did not weave.
        """
        self.hosted = hosted
        self._prepare: Callable[[], None] | None = None
        linker = Linker(engine)
        run = component.get_export_index(RUN)
        if run is None:
            raise ComponentRejected("the machine code has no entry point", "Delete it and start svc again.")
        self._references: list[Any] = [engine, component, linker, run]
        self.engine = address(engine)
        self._places = address(linker), address(component), address(run)
        try:
            with linker.root() as root:
                for name, extern in component.type.imports(engine).items():
                    interface: Any = extern.ty
                    with root.add_instance(name) as instance:
                        self._bind(name.partition("@")[0], instance, interface.exports(engine), runs)
        except SvcError:
            raise
        except Exception as error:
            raise ComponentRejected(f"the component cannot be linked: {error}", "Build it again.") from error

    def invoke(self, context: int, argument: Callable[[], bytes]) -> Invocation:
        """Start to handle a request in the store of `context`; see `Invocation`."""
        return Invocation(context, *self._places, argument, prepare=self._prepare)

    def prepared_by(self, prepare: Callable[[], None]) -> "LinkedComponent":
        """Return the component with a function that is called before each step of an instantiation."""
        prepared = copy(self)
        prepared._prepare = prepare
        prepared._references = [*self._references, self]
        return prepared

    def _bind(self, interface: str, instance: Any, items: dict[str, Any], runs: dict[int, Any]) -> None:
        for name, item in items.items():
            function = FUNCTIONS[f"{interface}#{name}"]
            kind = item.ty
            assert isinstance(kind, types.FuncType)
            if function.blocking:
                callback = host_functions.blocking_function(runs, kind, function.body)
            else:
                callback = host_functions.host_function(runs, kind, function.body, packed=function.packed)
            self._references.append(callback)
            add_function(instance, name, callback, blocking=function.blocking)
