"""Has an instance tell how large its memories have become when its handler returns.

The C API shows no memory of a component. So a few sections are appended to the binary: a core module whose
one function calls the guest's handler and returns the sum of `memory.size`, lifted and exported as
`svc-metered-handle: func(request, response-out) -> u32`. Memories never shrink: the sum is the peak. Nothing
that is there is changed, and a component whose handler is not found is left as it is.
"""

import re

from wasmtime import WasmtimeError

from engine.wasm.binary.append import ALIAS, CANONICAL, CORE_INSTANCE, EXPORT, TYPE, Appendix
from engine.wasm.binary.reader import Bundle, Composed, Exported, Imported, Lifted, Outline, Unscannable, scan
from engine.wasm.binary.writer import leb, name, signed, vector

HANDLE = "svc-metered-handle"
INTERFACE = "wasi:http/incoming-handler"
PAGE = 65536
_TYPES = "wasi:http/types@"
_CORE_HANDLE = re.compile(rb"wasi:http/incoming-handler@[^#]*#handle")
_POST_RETURN = 5


def add_probe(component: bytes) -> bytes:
    """Return the component with a `svc-metered-handle`, or as it is where none fits."""
    try:
        outline = scan(component)
        function, types = _handler(outline), _types(outline)
        if function is None or types is None or not outline.memories:
            return component
        return component + _appendix(outline, function, types)
    except (Unscannable, WasmtimeError):
        return component


def _handler(outline: Outline) -> int | None:
    """Return the core function that the component's handler calls, `None` where that is not sure."""
    exported = next(
        (at for export, at in outline.exports.items() if export.startswith(f"{INTERFACE}@")), None
    )
    instance = outline.origin(*exported) if exported is not None else None
    if isinstance(instance, Bundle):
        found = [instance.exports[b"handle"]] if b"handle" in instance.exports else []
    elif isinstance(instance, Composed):
        found = [at for at in instance.arguments.values() if at[0] == "func"]
    else:
        found = []
    lifted = outline.origin(*found[0]) if len(found) == 1 else None
    if not isinstance(lifted, Lifted) or _POST_RETURN in lifted.options:
        return None
    # A component in between could do anything; builders put one there that hands on what it is given.
    core = outline.origin("core-func", lifted.function)
    sure = isinstance(core, Exported) and _CORE_HANDLE.fullmatch(core.name)
    return lifted.function if isinstance(instance, Bundle) or sure else None


def _types(outline: Outline) -> int | None:
    """Return the imported instance that has the types of requests, `None` where there are two."""
    found = [
        index
        for index, origin in enumerate(outline.spaces.get("instance", []))
        if isinstance(origin, Imported) and origin.name.startswith(_TYPES)
    ]
    return found[0] if len(found) == 1 else None


def _appendix(outline: Outline, function: int, types: int) -> bytes:
    made = Appendix(outline)
    given = [name(b"handle") + b"\x00" + leb(function)]
    given += [
        name(f"memory-{i}".encode()) + b"\x02" + leb(memory) for i, memory in enumerate(outline.memories)
    ]
    module = made.core_module(_module(len(outline.memories)))
    guest = made.add(CORE_INSTANCE, [b"\x01" + vector(given)], "core-instance")
    arguments = vector([name(b"guest") + b"\x12" + leb(guest)])
    instance = made.add(CORE_INSTANCE, [b"\x00" + leb(module) + arguments], "core-instance")
    core = made.add(ALIAS, [b"\x00\x00\x01" + leb(instance) + name(b"handle")], "core-func")
    names = (b"incoming-request", b"response-outparam")
    resources = made.add(ALIAS, [b"\x03\x00" + leb(types) + name(each) for each in names], "type")
    owned = made.add(TYPE, [b"\x69" + leb(resources), b"\x69" + leb(resources + 1)], "type")
    parameters = vector([name(b"request") + signed(owned), name(b"response-out") + signed(owned + 1)])
    signature = made.add(TYPE, [b"\x40" + parameters + b"\x00\x79"], "type")
    lifted = made.add(CANONICAL, [b"\x00\x00" + leb(core) + b"\x00" + leb(signature)], "func")
    made.add(EXPORT, [b"\x00" + name(HANDLE.encode()) + b"\x01" + leb(lifted) + b"\x00"], "func")
    return bytes(made.out)


def _module(memories: int) -> str:
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
