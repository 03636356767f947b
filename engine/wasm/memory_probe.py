"""Lets the host ask an instance how large its memories are.

The C API shows no memory of a component. So about a hundred bytes are appended to the binary for each
memory: a core module whose one function is `memory.size`, and an exported `func() -> u32` that calls it.
Nothing that is there is changed. A component that cannot be scanned is left as it is.
"""

from engine.wasm.scan import Outline, Unscannable, scan
from engine.wasm.sections import leb, name, section

PREFIX = "svc-memory-pages-"
PAGE = 65536


# (module (import "m" "m" (memory 0)) (func (export "s") (result i32) memory.size))
_MODULE = (
    b"\0asm\1\0\0\0"
    + section(1, b"\x01\x60\x00\x01\x7f")
    + section(2, b"\x01" + name(b"m") + name(b"m") + b"\x02\x00\x00")
    + section(3, b"\x01\x00")
    + section(7, b"\x01" + name(b"s") + b"\x00\x00")
    + section(10, b"\x01\x04\x00\x3f\x00\x0b")
)


def add_probe(component: bytes) -> bytes:
    """Return the component with one `svc-memory-pages-<n>: func() -> u32` for each of its memories."""
    try:
        outline = scan(component)
    except Unscannable:
        return component
    return component + _appendix(outline) if outline.memories else component


def _appendix(outline: Outline) -> bytes:
    module, probe_type = outline.length("core-module"), outline.length("type")
    instance, core_func = outline.length("core-instance"), outline.length("core-func")
    func = outline.length("func")
    # The module, and the type `func() -> u32` (0x79).
    out = section(1, _MODULE) + section(7, b"\x01\x40\x00\x00\x79")
    for position, memory in enumerate(outline.memories):
        bundle = b"\x01\x01" + name(b"m") + b"\x02" + leb(memory)
        instantiate = b"\x00" + leb(module) + b"\x01" + name(b"m") + b"\x12" + leb(instance)
        out += section(2, b"\x02" + bundle + instantiate)
        out += section(6, b"\x01\x00\x00\x01" + leb(instance + 1) + name(b"s"))
        out += section(8, b"\x01\x00\x00" + leb(core_func) + b"\x00" + leb(probe_type))
        export = name(f"{PREFIX}{position}".encode())
        out += section(11, b"\x01\x00" + export + b"\x01" + leb(func) + b"\x00")
        instance, core_func, func = instance + 2, core_func + 1, func + 2
    return out
