"""Probe that reports an instance's peak memory when its handler returns.

The C API does not expose a component's memories. So a few sections are appended to the binary: a core module
whose function calls the guest's handler and returns the sum of `memory.size`, lifted and exported as
`svc-metered-handle: func(request, response-out) -> u32`. Memories never shrink, so the sum is the peak.
Existing sections are unchanged. A component whose handler is not found is returned as it is.
"""

import re

from wasmtime import WasmtimeError

from engine.wasm.binary.append import ALIAS, CANONICAL, CORE_INSTANCE, EXPORT, TYPE, SectionAppender
from engine.wasm.binary.reader import (
    ComponentInstance,
    ComponentOutline,
    ImportedItem,
    InlineInstance,
    InstanceExport,
    LiftedFunction,
    read_outline,
)
from engine.wasm_binary import UnsupportedBinary, name, sleb, uleb, vector

METERED_HANDLE = "svc-metered-handle"
HANDLER_INTERFACE = "wasi:http/incoming-handler"
PAGE_BYTES = 65536
_TYPES = "wasi:http/types@"
_CORE_HANDLE = re.compile(rb"wasi:http/incoming-handler@[^#]*#handle")
_POST_RETURN = 5


def add_probe(component: bytes) -> bytes:
    """Return the component with a `svc-metered-handle`, or unchanged if the probe does not fit."""
    try:
        outline = read_outline(component)
        function, types = _find_handler(outline), _find_types(outline)
        if function is None or types is None or not outline.memories:
            return component
        return component + _probe_sections(outline, function, types)
    except (UnsupportedBinary, WasmtimeError):
        return component


def _find_handler(outline: ComponentOutline) -> int | None:
    """Return the core function behind the component's handler, `None` if it is uncertain."""
    exported = next(
        (at for export, at in outline.exports.items() if export.startswith(f"{HANDLER_INTERFACE}@")), None
    )
    instance = outline.definition(*exported) if exported is not None else None
    if isinstance(instance, InlineInstance):
        functions = [instance.exports[b"handle"]] if b"handle" in instance.exports else []
    elif isinstance(instance, ComponentInstance):
        functions = [at for at in instance.arguments.values() if at[0] == "func"]
    else:
        functions = []
    lifted = outline.definition(*functions[0]) if len(functions) == 1 else None
    if not isinstance(lifted, LiftedFunction) or _POST_RETURN in lifted.options:
        return None
    # A component in between could do anything. Builders insert one that passes its argument on.
    core = outline.definition("core-func", lifted.function)
    sure = isinstance(core, InstanceExport) and _CORE_HANDLE.fullmatch(core.name)
    return lifted.function if isinstance(instance, InlineInstance) or sure else None


def _find_types(outline: ComponentOutline) -> int | None:
    """Return the imported instance with the request types, `None` unless there is exactly one."""
    instances = [
        index
        for index, origin in enumerate(outline.spaces.get("instance", []))
        if isinstance(origin, ImportedItem) and origin.name.startswith(_TYPES)
    ]
    return instances[0] if len(instances) == 1 else None


def _probe_sections(outline: ComponentOutline, function: int, types: int) -> bytes:
    sections = SectionAppender(outline)
    exports = [name(b"handle") + b"\x00" + uleb(function)]
    exports += [
        name(f"memory-{i}".encode()) + b"\x02" + uleb(memory) for i, memory in enumerate(outline.memories)
    ]
    module = sections.core_module(_probe_module(len(outline.memories)))
    guest = sections.add(CORE_INSTANCE, [b"\x01" + vector(exports)], "core-instance")
    arguments = vector([name(b"guest") + b"\x12" + uleb(guest)])
    instance = sections.add(CORE_INSTANCE, [b"\x00" + uleb(module) + arguments], "core-instance")
    core = sections.add(ALIAS, [b"\x00\x00\x01" + uleb(instance) + name(b"handle")], "core-func")
    names = (b"incoming-request", b"response-outparam")
    resources = sections.add(ALIAS, [b"\x03\x00" + uleb(types) + name(each) for each in names], "type")
    owned = sections.add(TYPE, [b"\x69" + uleb(resources), b"\x69" + uleb(resources + 1)], "type")
    parameters = vector([name(b"request") + sleb(owned), name(b"response-out") + sleb(owned + 1)])
    signature = sections.add(TYPE, [b"\x40" + parameters + b"\x00\x79"], "type")
    lifted = sections.add(CANONICAL, [b"\x00\x00" + uleb(core) + b"\x00" + uleb(signature)], "func")
    sections.add(EXPORT, [b"\x00" + name(METERED_HANDLE.encode()) + b"\x01" + uleb(lifted) + b"\x00"], "func")
    return bytes(sections.out)


def _probe_module(memories: int) -> str:
    """Return the probe's core module for this number of memories, as text."""
    imported = "".join(f'(import "guest" "memory-{i}" (memory $m{i} 0))' for i in range(memories))
    sizes = "(i32.const 0)"
    for i in range(memories):
        sizes = f"(i32.add {sizes} (memory.size $m{i}))"
    return f"""(module
      (import "guest" "handle" (func $handle (param i32 i32))) {imported}
      (func (export "handle") (param i32 i32) (result i32)
        (call $handle (local.get 0) (local.get 1))
        {sizes}))"""
