"""Fast byte streams: bytes cross the host boundary as strings, a hundred times faster than as `list<u8>`.

Sections are appended to a component, and existing sections are unchanged:

1. An imported instance with string variants of the stream methods that carry bytes.
2. These variants, lowered with the component's own memory or with a scratch memory.
3. A core module that replaces the stream methods in the component's function table by functions that call the
variants.

`analysis.py` finds the table slots, and `modules.py` has the functions. A component of unknown structure
stays unchanged, and its bytes cross as lists.

The scratch memory counts separately for `memory_limit_mb`, and not for the reported peak.
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
from engine.wasm.binary.reader import ComponentOutline, ImportedItem, read_outline
from engine.wasm_binary import UnsupportedBinary, name, uleb, vector

_STRING, _U64, _U32 = b"\x73", b"\x77", b"\x79"
_OWN_TYPE, _IMPORTED_INSTANCE = b"\x03", b"\x05"
_OUTPUT, _INPUT, _ERROR = b"output-stream", b"input-stream", b"stream-error"


def add_fast_streams(component: bytes) -> bytes:
    """Return the component with fast streams, or unchanged if they do not fit."""
    try:
        outline = read_outline(component)
        points = find_patch_points(component, outline)
        return component if points is None else component + _sections(outline, points)
    except (UnsupportedBinary, WasmtimeError):
        return component


def _sections(outline: ComponentOutline, points: PatchPoints) -> bytes:
    sections = SectionAppender(outline)
    scratch = sections.add(
        CORE_INSTANCE, [b"\x00" + uleb(sections.core_module(SCRATCH_MODULE)) + b"\x00"], "core-instance"
    )
    memory = sections.add(ALIAS, [b"\x00\x02\x01" + uleb(scratch) + name(b"memory")], "core-memory")
    realloc = sections.add(ALIAS, [b"\x00\x00\x01" + uleb(scratch) + name(b"realloc")], "core-func")
    exports = {b"scratch": b"\x02" + uleb(memory), b"guest": b"\x02" + uleb(points.memory)}
    for streams in sorted({slot.streams for slot in points.slots}):
        calls = sorted({slot.call for slot in points.slots if slot.streams == streams})
        variants = [variant for call in calls for variant in string_variants(call)]
        instance = _import(sections, outline, streams, variants)
        functions = sections.add(
            ALIAS, [b"\x01\x00" + uleb(instance) + name(variant.encode()) for variant in variants], "func"
        )
        lowered = sections.add(
            CANONICAL,
            [
                _lower(functions + i, variant, guest=points.memory, scratch=memory, realloc=realloc)
                for i, variant in enumerate(variants)
            ],
            "core-func",
        )
        for i, variant in enumerate(variants):
            exports[f"{streams}-{variant}".encode()] = b"\x00" + uleb(lowered + i)
    for slot in points.slots:
        if slot.realloc is not None:
            exports[f"realloc-{slot.realloc}".encode()] = b"\x00" + uleb(slot.realloc)
    table = points.table
    if not isinstance(table, int):
        table = sections.add(ALIAS, [b"\x00\x01\x01" + uleb(table.instance) + name(table.name)], "core-table")
    exports[b"table"] = b"\x01" + uleb(table)
    bundle = b"\x01" + vector([name(export) + item for export, item in exports.items()])
    host = sections.add(CORE_INSTANCE, [bundle], "core-instance")
    arguments = vector([name(b"host") + b"\x12" + uleb(host)])
    sections.add(
        CORE_INSTANCE,
        [b"\x00" + uleb(sections.core_module(patch_module(points.slots))) + arguments],
        "core-instance",
    )
    return bytes(sections.out)


def _lower(function: int, variant: str, *, guest: int, scratch: int, realloc: int) -> bytes:
    """Lower a variant with the guest's memory for existing text, otherwise with the scratch memory."""
    straight = "write" in variant and not variant.endswith(PACKED_SUFFIX)
    options = [b"\x00", b"\x03" + uleb(guest if straight else scratch)]
    if "read" in variant:
        options.append(b"\x04" + uleb(realloc))
    return b"\x01\x00" + uleb(function) + vector(options)


def _import(sections: SectionAppender, outline: ComponentOutline, streams: int, variants: list[str]) -> int:
    """Import an instance with these variants, in the version of the streams; return its index."""
    needed = [
        kind for kind, part in ((_OUTPUT, "write"), (_INPUT, "read")) if any(part in n for n in variants)
    ]
    needed.append(_ERROR)
    types = sections.add(ALIAS, [_OWN_TYPE + b"\x00" + uleb(streams) + name(kind) for kind in needed], "type")
    origin = outline.definition("instance", streams)
    assert isinstance(origin, ImportedItem)
    version = origin.name.partition("@")[2]
    imported = f"{FAST_STREAMS}@{version}" if version else FAST_STREAMS
    declared = sections.add(TYPE, [_instance_type(needed, types, variants)], "type")
    return sections.add(
        IMPORT, [b"\x00" + name(imported.encode()) + _IMPORTED_INSTANCE + uleb(declared)], "instance"
    )


def _instance_type(needed: list[bytes], types: int, variants: list[str]) -> bytes:
    """Declare the variants; `needed` are the stream types at index `types` and the following ones."""
    declared: list[bytes] = []
    indices: dict[bytes, bytes] = {}
    count = 0

    def define(definition: bytes) -> bytes:
        nonlocal count
        declared.append(b"\x01" + definition)
        count += 1
        return uleb(count - 1)

    for offset, kind in enumerate(needed):
        # Alias of the outer type, exported under its own name.
        declared.append(b"\x02\x03\x02\x01" + uleb(types + offset))
        declared.append(b"\x04\x00" + name(kind) + b"\x03\x00" + uleb(count))
        indices[kind] = uleb(count + 1)
        count += 2
    handles = {kind: define(b"\x68" + indices[kind]) for kind in needed if kind != _ERROR}
    error = b"\x01" + indices[_ERROR]
    for variant in variants:
        if "write" in variant:
            parameters = [(b"self", handles[_OUTPUT]), (b"text", _STRING)]
            if variant.endswith(PACKED_SUFFIX):
                parameters.append((b"count", _U32))
            result = define(b"\x6a\x00" + error)
        else:
            parameters = [(b"self", handles[_INPUT]), (b"most", _U64)]
            text = define(b"\x6f" + vector([_STRING, _U32]))
            result = define(b"\x6a\x01" + text + error)
        function = define(b"\x40" + vector([name(n) + t for n, t in parameters]) + b"\x00" + result)
        declared.append(b"\x04\x00" + name(variant.encode()) + b"\x01" + function)
    return b"\x42" + vector(declared)
