"""Lets the bytes of streams cross the host boundary as strings: a hundred times faster than `list<u8>`.

Sections are appended to a component, and nothing that is there is changed: an imported instance with twins
of the stream methods that carry bytes, whose types have strings in their place; these twins lowered with
the component's own memory, or with a scratch memory of the overlay; and a core module that puts functions
which call them where the component's table had the methods. `overlay_shape.py` knows where, and
`overlay_module.py` what these functions do. A component whose shape is not understood stays as it is, and
all its bytes cross as lists.

The scratch memory is a memory of its own for `memory_limit_mb`, and not among those that the peak counts.
"""

from wasmtime import WasmtimeError

from engine.wasm.binary.append import ALIAS, CANONICAL, CORE_INSTANCE, IMPORT, TYPE, SectionAppender
from engine.wasm.binary.fast_streams.analysis import PatchPoints, find_patch_points
from engine.wasm.binary.fast_streams.modules import (
    FAST_STREAMS,
    PACKED_SUFFIX,
    SCRATCH_MODULE,
    patch_module,
    string_variants,
)
from engine.wasm.binary.reader import ComponentOutline, ImportedItem, UnsupportedBinary, read_outline
from engine.wasm.binary.writer import name, uleb, vector

_STRING, _U64, _U32 = b"\x73", b"\x77", b"\x79"
_OWN_TYPE, _IMPORTED_INSTANCE = b"\x03", b"\x05"
_OUTPUT, _INPUT, _ERROR = b"output-stream", b"input-stream", b"stream-error"


def add_fast_streams(component: bytes) -> bytes:
    """Return the component with an overlay, or as it is where none fits."""
    try:
        outline = read_outline(component)
        shape = find_patch_points(component, outline)
        return component if shape is None else component + _sections(outline, shape)
    except (UnsupportedBinary, WasmtimeError):
        return component


def _sections(outline: ComponentOutline, shape: PatchPoints) -> bytes:
    made = SectionAppender(outline)
    scratch = made.add(
        CORE_INSTANCE, [b"\x00" + uleb(made.core_module(SCRATCH_MODULE)) + b"\x00"], "core-instance"
    )
    memory = made.add(ALIAS, [b"\x00\x02\x01" + uleb(scratch) + name(b"memory")], "core-memory")
    realloc = made.add(ALIAS, [b"\x00\x00\x01" + uleb(scratch) + name(b"realloc")], "core-func")
    exports = {b"scratch": b"\x02" + uleb(memory), b"guest": b"\x02" + uleb(shape.memory)}
    for streams in sorted({slot.streams for slot in shape.slots}):
        calls = sorted({slot.call for slot in shape.slots if slot.streams == streams})
        names = [twin for call in calls for twin in string_variants(call)]
        instance = _import(made, outline, streams, names)
        functions = made.add(
            ALIAS, [b"\x01\x00" + uleb(instance) + name(twin.encode()) for twin in names], "func"
        )
        lowered = made.add(
            CANONICAL,
            [
                _lower(functions + i, twin, guest=shape.memory, scratch=memory, realloc=realloc)
                for i, twin in enumerate(names)
            ],
            "core-func",
        )
        for i, twin in enumerate(names):
            exports[f"{streams}-{twin}".encode()] = b"\x00" + uleb(lowered + i)
    for slot in shape.slots:
        if slot.realloc is not None:
            exports[f"realloc-{slot.realloc}".encode()] = b"\x00" + uleb(slot.realloc)
    table = shape.table
    if not isinstance(table, int):
        table = made.add(ALIAS, [b"\x00\x01\x01" + uleb(table.instance) + name(table.name)], "core-table")
    exports[b"table"] = b"\x01" + uleb(table)
    bundle = b"\x01" + vector([name(export) + item for export, item in exports.items()])
    host = made.add(CORE_INSTANCE, [bundle], "core-instance")
    arguments = vector([name(b"host") + b"\x12" + uleb(host)])
    made.add(
        CORE_INSTANCE,
        [b"\x00" + uleb(made.core_module(patch_module(shape.slots))) + arguments],
        "core-instance",
    )
    return bytes(made.out)


def _lower(function: int, twin: str, *, guest: int, scratch: int, realloc: int) -> bytes:
    """Lower a twin: the guest's memory for text that is there, else the scratch memory."""
    straight = "write" in twin and not twin.endswith(PACKED_SUFFIX)
    options = [b"\x00", b"\x03" + uleb(guest if straight else scratch)]
    if "read" in twin:
        options.append(b"\x04" + uleb(realloc))
    return b"\x01\x00" + uleb(function) + vector(options)


def _import(made: SectionAppender, outline: ComponentOutline, streams: int, names: list[str]) -> int:
    """Import an instance with these twins, of the version of the streams; return its index."""
    needed = [kind for kind, part in ((_OUTPUT, "write"), (_INPUT, "read")) if any(part in n for n in names)]
    needed.append(_ERROR)
    types = made.add(ALIAS, [_OWN_TYPE + b"\x00" + uleb(streams) + name(kind) for kind in needed], "type")
    origin = outline.definition("instance", streams)
    assert isinstance(origin, ImportedItem)
    version = origin.name.partition("@")[2]
    imported = f"{FAST_STREAMS}@{version}" if version else FAST_STREAMS
    declared = made.add(TYPE, [_instance_type(needed, types, names)], "type")
    return made.add(
        IMPORT, [b"\x00" + name(imported.encode()) + _IMPORTED_INSTANCE + uleb(declared)], "instance"
    )


def _instance_type(needed: list[bytes], types: int, names: list[str]) -> bytes:
    """Declare the twins; `needed` are the stream types that stand at `types` and after it."""
    declared: list[bytes] = []
    indices: dict[bytes, bytes] = {}
    count = 0

    def define(definition: bytes) -> bytes:
        nonlocal count
        declared.append(b"\x01" + definition)
        count += 1
        return uleb(count - 1)

    for offset, kind in enumerate(needed):
        # An alias of the outer type, exported under its own name.
        declared.append(b"\x02\x03\x02\x01" + uleb(types + offset))
        declared.append(b"\x04\x00" + name(kind) + b"\x03\x00" + uleb(count))
        indices[kind] = uleb(count + 1)
        count += 2
    handles = {kind: define(b"\x68" + indices[kind]) for kind in needed if kind != _ERROR}
    error = b"\x01" + indices[_ERROR]
    for twin in names:
        if "write" in twin:
            parameters = [(b"self", handles[_OUTPUT]), (b"text", _STRING)]
            if twin.endswith(PACKED_SUFFIX):
                parameters.append((b"count", _U32))
            result = define(b"\x6a\x00" + error)
        else:
            parameters = [(b"self", handles[_INPUT]), (b"most", _U64)]
            text = define(b"\x6f" + vector([_STRING, _U32]))
            result = define(b"\x6a\x01" + text + error)
        function = define(b"\x40" + vector([name(n) + t for n, t in parameters]) + b"\x00" + result)
        declared.append(b"\x04\x00" + name(twin.encode()) + b"\x01" + function)
    return b"\x42" + vector(declared)
