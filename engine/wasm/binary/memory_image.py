"""Split of a component into its code and its initial memory.

Components of one interpreter have the same code. They differ only in the memory of their main module, which
holds the program. So the code is compiled once, without data segments, and the host maps the memory of each
component before it is instantiated.
"""

from dataclasses import dataclass

from engine.wasm.binary.reader import PAGE_BYTES, CoreModule, read_memories, read_outline
from engine.wasm_binary import (
    CORE_MODULE,
    DATA,
    DATA_COUNT,
    MODULE_HEADER,
    BinaryReader,
    UnsupportedBinary,
    count_imported_functions,
    read_data,
    read_sections,
    replace_sections,
    section,
    uleb,
    vector,
)

MIN_IMAGE_BYTES, MAX_IMAGE_BYTES = 1 << 20, 64 << 20
"""wasmtime resets smaller memories in less time than the host."""
_MIN_DENSITY = 0.25
_CUSTOM, _IMPORTS, _FUNCTIONS, _CODE = 0, 2, 3, 10
_TRAP = b"\x03\0\0\x0b"
"""The code of a function that traps, with its size as prefix."""


@dataclass(frozen=True, slots=True)
class SplitComponent:
    """A component without the data of its main memory, and that memory's initial content.

    `image` has whole pages, from the address `start` on; the rest is zero. The memory begins with `minimum`
    bytes, and no other memory of the component begins with as many.
    """

    code: bytes
    image: bytes
    start: int
    minimum: int


def without_code(component: bytes) -> bytes:
    """Return the component with functions that trap and without data, which compiles in little time.

    Raises UnsupportedBinary.
    """
    parts: list[bytes] = []
    at = 0
    modules = read_outline(component).spaces.get("core-module", ())
    for module in (each for each in modules if isinstance(each, CoreModule)):
        binary = component[module.start : module.end]
        sections = [each for each in read_sections(binary) if each[0] not in (_CUSTOM, DATA, DATA_COUNT)]
        functions = dict(sections).get(_FUNCTIONS, b"\0")
        count = min(BinaryReader(functions).uleb(), len(functions))
        stub = replace_sections(MODULE_HEADER, sections, {_CODE: uleb(count) + _TRAP * count})
        parts += component[at : module.section], section(CORE_MODULE, stub)
        at = module.end
    return b"".join([*parts, component[at:]])


def split_memory(component: bytes) -> SplitComponent:
    """Split the largest core module of a component. Raises UnsupportedBinary if that does not pay or fit.

    The code is invalid if it addresses data segments by index (`memory.init`).
    """
    modules = dict.fromkeys(read_outline(component).modules())
    main = max(modules, key=lambda module: module.end - module.start, default=None)
    if main is None:
        raise UnsupportedBinary("no core module")
    memories = {each: read_memories(component[each.start : each.end]) for each in modules}
    sections = list(read_sections(component[main.start : main.end]))
    count_imported_functions(BinaryReader(dict(sections).get(_IMPORTS, b"\0")))
    if not memories[main]:
        raise UnsupportedBinary("no memory")
    minimum = memories[main][0].minimum
    if [each.minimum for types in memories.values() for each in types].count(minimum) > 1:
        raise UnsupportedBinary("memories of the same size")
    start, image = _image(dict(sections).get(DATA, b"\0"))
    if start + len(image) > minimum:
        raise UnsupportedBinary("data outside of the memory")
    module = replace_sections(MODULE_HEADER, sections, {DATA: vector([]), DATA_COUNT: uleb(0)})
    code = component[: main.section] + section(CORE_MODULE, module) + component[main.end :]
    return SplitComponent(code, image, start, minimum)


def _image(body: bytes) -> tuple[int, bytes]:
    """Return the address and the content of the memory that data segments fill, in whole pages."""
    segments = list(read_data(body))
    start = min((address for address, _ in segments), default=0) // PAGE_BYTES * PAGE_BYTES
    end = max((address + len(data) for address, data in segments), default=0)
    length = -(-(end - start) // PAGE_BYTES) * PAGE_BYTES
    if not MIN_IMAGE_BYTES <= length <= MAX_IMAGE_BYTES:
        raise UnsupportedBinary("memory of another size")
    if sum(len(data) for _, data in segments) < length * _MIN_DENSITY:
        raise UnsupportedBinary("memory that is mostly empty")
    image = bytearray(length)
    for address, data in segments:
        image[address - start : address - start + len(data)] = data
    return start, bytes(image)
