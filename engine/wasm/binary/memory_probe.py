"""Has an instance tell how large its memories have become when its handler returns.

The C API shows no memory of a component. So a few sections are appended to the binary: a core module whose
one function calls the guest's handler and returns the sum of `memory.size`, lifted and exported as
`svc-metered-handle: func(request, response-out) -> u32`. Memories never shrink: the sum is the peak. Nothing
that is there is changed, and a component whose handler is not found is left as it is.
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
    UnsupportedBinary,
    read_outline,
)
from engine.wasm.binary.writer import name, sleb, uleb, vector

METERED_HANDLE = "svc-metered-handle"
HANDLER_INTERFACE = "wasi:http/incoming-handler"
PAGE_BYTES = 65536
_TYPES = "wasi:http/types@"
_CORE_HANDLE = re.compile(rb"wasi:http/incoming-handler@[^#]*#handle")
_POST_RETURN = 5


def add_probe(component: bytes) -> bytes:
    """Return the component with a `svc-metered-handle`, or as it is where none fits."""
    try:
        outline = read_outline(component)
        function, types = _find_handler(outline), _find_types(outline)
        if function is None or types is None or not outline.memories:
            return component
        return component + _probe_sections(outline, function, types)
    except (UnsupportedBinary, WasmtimeError):
        return component


def _find_handler(outline: ComponentOutline) -> int | None:
    """Return the core function that the component's handler calls, `None` where that is not sure."""
    exported = next(
        (at for export, at in outline.exports.items() if export.startswith(f"{HANDLER_INTERFACE}@")), None
    )
    instance = outline.definition(*exported) if exported is not None else None
    if isinstance(instance, InlineInstance):
        found = [instance.exports[b"handle"]] if b"handle" in instance.exports else []
    elif isinstance(instance, ComponentInstance):
        found = [at for at in instance.arguments.values() if at[0] == "func"]
    else:
        found = []
    lifted = outline.definition(*found[0]) if len(found) == 1 else None
    if not isinstance(lifted, LiftedFunction) or _POST_RETURN in lifted.options:
        return None
    # A component in between could do anything; builders put one there that hands on what it is given.
    core = outline.definition("core-func", lifted.function)
    sure = isinstance(core, InstanceExport) and _CORE_HANDLE.fullmatch(core.name)
    return lifted.function if isinstance(instance, InlineInstance) or sure else None


def _find_types(outline: ComponentOutline) -> int | None:
    """Return the imported instance that has the types of requests, `None` where there are two."""
    found = [
        index
        for index, origin in enumerate(outline.spaces.get("instance", []))
        if isinstance(origin, ImportedItem) and origin.name.startswith(_TYPES)
    ]
    return found[0] if len(found) == 1 else None


def _probe_sections(outline: ComponentOutline, function: int, types: int) -> bytes:
    made = SectionAppender(outline)
    given = [name(b"handle") + b"\x00" + uleb(function)]
    given += [
        name(f"memory-{i}".encode()) + b"\x02" + uleb(memory) for i, memory in enumerate(outline.memories)
    ]
    module = made.core_module(_probe_module(len(outline.memories)))
    guest = made.add(CORE_INSTANCE, [b"\x01" + vector(given)], "core-instance")
    arguments = vector([name(b"guest") + b"\x12" + uleb(guest)])
    instance = made.add(CORE_INSTANCE, [b"\x00" + uleb(module) + arguments], "core-instance")
    core = made.add(ALIAS, [b"\x00\x00\x01" + uleb(instance) + name(b"handle")], "core-func")
    names = (b"incoming-request", b"response-outparam")
    resources = made.add(ALIAS, [b"\x03\x00" + uleb(types) + name(each) for each in names], "type")
    owned = made.add(TYPE, [b"\x69" + uleb(resources), b"\x69" + uleb(resources + 1)], "type")
    parameters = vector([name(b"request") + sleb(owned), name(b"response-out") + sleb(owned + 1)])
    signature = made.add(TYPE, [b"\x40" + parameters + b"\x00\x79"], "type")
    lifted = made.add(CANONICAL, [b"\x00\x00" + uleb(core) + b"\x00" + uleb(signature)], "func")
    made.add(EXPORT, [b"\x00" + name(METERED_HANDLE.encode()) + b"\x01" + uleb(lifted) + b"\x00"], "func")
    return bytes(made.out)


def _probe_module(memories: int) -> str:
    """Return the core module for so many memories, as text."""
    imported = "".join(f'(import "guest" "memory-{i}" (memory $m{i} 0))' for i in range(memories))
    sizes = "(i32.const 0)"
    for i in range(memories):
        sizes = f"(i32.add {sizes} (memory.size $m{i}))"
    return f"""(module
      (import "guest" "handle" (func $handle (param i32 i32))) {imported}
      (func (export "handle") (param i32 i32) (result i32)
        (call $handle (local.get 0) (local.get 1))
        {sizes}))"""
