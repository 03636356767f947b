"""Builds a component around the unchanged core modules of another one, with the WASI library among them.

The library replaces each function of WASI that the component lowers. The component that results imports only
`svc:run/host`, and what the library does not implement (Doors, the script of a development build). It exports
`svc-run`, which handles one request. Order of instantiation: the library's memory, the library, the guest's
core instances as they were, and the access module (`modules.py`).
"""

from functools import cache
from pathlib import Path

from wasmtime import wat2wasm

from engine.wasm.binary.reader import (
    ComponentInstance,
    ComponentOutline,
    CoreModule,
    ImportedItem,
    InlineInstance,
    InstanceExport,
    LiftedFunction,
    LoweredFunction,
    ModuleInstance,
    ResourceDrop,
    read_memories,
    read_outline,
)
from engine.wasm.weave.builder import (
    CORE_SORTS,
    DIRECT_INTERFACES,
    HOST,
    HOST_INTERFACE,
    RUN,
    RUN_SIGNATURE,
    ComponentBuilder,
    CoreItem,
)
from engine.wasm.weave.modules import access_module, memory_module, thunk_module, unavailable_module
from engine.wasm_binary import (
    COMPONENT_HEADER,
    CORE_MODULE,
    EXPORTS,
    MEMORY,
    MODULE_HEADER,
    NESTED_COMPONENT,
    BinaryReader,
    CoreFunctions,
    CoreSignature,
    UnsupportedBinary,
    read_functions,
    read_sections,
    replace_sections,
    uleb,
)
from engine.wasm_binary import name as encode_name

HANDLER_INTERFACE = "wasi:http/incoming-handler"
_ALIASES = {"headers": "fields", "trailers": "fields", "io-error": "error"}
"""Second names that interfaces give to resources of others."""
_LIBRARY = Path(__file__).parents[1] / "guest_side" / "library.wasm"
_AFTER_EXPORTS = (8, 9, 10, 11, 12)


def export_memories(module: bytes, functions: CoreFunctions) -> tuple[bytes, dict[bytes, str]]:
    """Return the module with an export for each memory that it defines, and their index types by name.

    A module that exports them is unchanged. Raises UnsupportedBinary.
    """
    memories = dict(enumerate(read_memories(module), functions.imported_memories))
    names = dict(functions.memory_exports)
    for index in memories.keys() - names.keys():
        sections = list(read_sections(module))
        if EXPORTS not in dict(sections):
            at = next((i for i, (kind, _) in enumerate(sections) if kind in _AFTER_EXPORTS), len(sections))
            sections.insert(at, (EXPORTS, b"\0"))
        reader = BinaryReader(dict(sections)[EXPORTS])
        count, body = reader.uleb() + 1, reader.data[reader.at :]
        names[index] = b"memory"
        while names[index] in body:
            names[index] += b"-"
        added = encode_name(names[index]) + bytes([MEMORY]) + uleb(index)
        module = replace_sections(MODULE_HEADER, sections, {EXPORTS: uleb(count) + body + added})
    return module, {names[index]: memory.index_type for index, memory in memories.items()}


class _Library:
    """The library's core module."""

    def __init__(self) -> None:
        self.binary = _LIBRARY.read_bytes()
        self.functions: CoreFunctions = read_functions(self.binary)
        self.pages = self.functions.memory_pages


@cache
def library() -> _Library:
    return _Library()


def weave(component: bytes) -> bytes:
    """Return the component with the library inside.

    Raises UnsupportedBinary with the reason if its structure is not supported.
    """
    try:
        return _Weaver(component).run()
    except UnsupportedBinary as error:
        sections = read_sections(component, COMPONENT_HEADER)
        nested = [body for kind, body in sections if kind == NESTED_COMPONENT]
        # Builders nest components that have no code.
        if any(kind == CORE_MODULE for body in nested for kind, _ in read_sections(body, COMPONENT_HEADER)):
            raise UnsupportedBinary(f"it consists of several components: {error}") from error
        raise


class _Weaver:
    def __init__(self, component: bytes) -> None:
        self._component = component
        self._outline: ComponentOutline = read_outline(component)
        self._built = ComponentBuilder()
        self._new: dict[CoreItem, int] = {}  # index of each item in the new component
        self._modules: dict[CoreModule, int] = {}
        self._binaries: dict[CoreModule, bytes] = {}
        self._memories: list[tuple[int, bytes, str]] = []  # instance, name and index type of the guest's
        self._memory: CoreItem | None = None
        self._reallocs: list[CoreItem] = []
        self._types: dict[int, CoreSignature] = {}
        self._direct: dict[str, int] = {}

    def run(self) -> bytes:
        """Build the component. Raises UnsupportedBinary."""
        handler = self._handler()
        self._library_memory, self._library = self._add_library()
        self._replace_functions()
        needed = self._access_needs(handler)
        # Early, because a later module may call the library when it starts.
        has_access = False
        for space, index in self._outline.core_items:
            self._rebuild(space, index)
            if not has_access and space == "core-instance" and all(map(self._is_available, needed)):
                self._add_access(handler)
                has_access = True
        if not has_access:
            self._add_access(handler)
        run = self._built.core_export("core-func", self._library, RUN.encode())
        realloc = self._built.core_export("core-func", self._library, b"realloc")
        self._built.export(RUN, run, RUN_SIGNATURE, self._own_memory, realloc)
        return bytes(self._built.out)

    # -- the original component --------------------------------------------------------------------------

    def _handler(self) -> int:
        """Return the core function behind the component's handler."""
        outline = self._outline
        exported = [
            at for export, at in outline.exports.items() if interface_name(export) == HANDLER_INTERFACE
        ]
        instance = outline.definition(*exported[0]) if len(exported) == 1 else None
        if isinstance(instance, InlineInstance):
            functions = [instance.exports[b"handle"]] if b"handle" in instance.exports else []
        elif isinstance(instance, ComponentInstance):  # Builders insert one that passes its argument on.
            functions = [at for at in instance.arguments.values() if at[0] == "func"]
        else:
            functions = []
        lifted = outline.definition(*functions[0]) if len(functions) == 1 else None
        # Its post-return may only free memory, and an instance handles one request.
        if not isinstance(lifted, LiftedFunction):
            raise UnsupportedBinary("its handler is not a core function")
        return lifted.function

    def _key(self, index: int) -> str | None:
        """Return `<interface>#<function>` or `drop#<resource>` of an imported core function."""
        outline = self._outline
        definition = outline.definition("core-func", index)
        if isinstance(definition, LoweredFunction):
            item = outline.definition("func", definition.function)
        elif isinstance(definition, ResourceDrop):
            item = outline.definition("type", definition.type)
        else:
            return None
        instance = outline.definition("instance", item.instance) if isinstance(item, InstanceExport) else None
        if not isinstance(item, InstanceExport) or not isinstance(instance, ImportedItem):
            return None
        if isinstance(definition, ResourceDrop):
            resource = _text(item.name)
            return f"drop#{_ALIASES.get(resource, resource)}"
        if definition.encoding != 0:
            raise UnsupportedBinary("its strings are not UTF-8")
        return f"{interface_name(instance.name)}#{_text(item.name)}"

    def _read_modules(self) -> dict[int, CoreSignature]:
        """Return the types of core functions by index, as the modules import them. Export all memories."""
        outline = self._outline
        types: dict[int, CoreSignature] = {}
        for at, instance in enumerate(outline.spaces.get("core-instance", ())):
            if not isinstance(instance, ModuleInstance):
                continue
            module = outline.definition("core-module", instance.module)
            if not isinstance(module, CoreModule):
                raise UnsupportedBinary("a module of another component")
            binary = self._component[module.start : module.end]
            functions = read_functions(binary)
            self._binaries[module], memories = export_memories(binary, functions)
            self._memories += ((at, memory, index_type) for memory, index_type in memories.items())
            for (argument, name), signature in functions.imports.items():
                bundle = outline.definition("core-instance", instance.arguments.get(argument))
                if isinstance(bundle, InlineInstance) and name in bundle.exports:
                    space, index = bundle.exports[name]
                    if space == "core-func":
                        types[index] = signature
        return types

    # -- the new component -------------------------------------------------------------------------------

    def _add_library(self) -> tuple[int, int]:
        """Add the library and its memory; return their instances."""
        built, host = self._built, self._built.import_instance(HOST_INTERFACE, HOST)
        text = memory_module(library().pages)
        memory = built.instance(built.module(bytes(wat2wasm(text))), {})
        self._own_memory = built.core_export("core-memory", memory, b"memory")
        realloc = built.core_export("core-func", memory, b"realloc")
        lowered = {
            function.encode(): ("core-func", built.lower(host, function, self._own_memory, realloc))
            for function in HOST
        }
        module = built.module(library().binary)
        return memory, built.instance(module, {b"m": memory, b"host": built.bundle(lowered)})

    def _replace_functions(self) -> None:
        """Replace the imported functions by the library's."""
        types = self._types = self._read_modules()
        functions = {
            index: key
            for space, index in self._outline.core_items
            if space == "core-func" and index in types and (key := self._key(index)) is not None
        }
        lowered = [self._outline.definition("core-func", index) for index in functions]
        self._reallocs = self._distinct("core-func", [getattr(each, "realloc", None) for each in lowered])
        memories = self._distinct("core-memory", [getattr(each, "memory", None) for each in lowered])
        if len(memories) > 1:
            raise UnsupportedBinary("its imported functions use several memories")
        self._memory = memories[0] if memories else None
        identities = [self._identity(*each) for each in self._reallocs]
        exports = library().functions.exports
        missing: list[tuple[int, str]] = []
        thunks: dict[tuple[str, int], list[int]] = {}
        direct: dict[str, int] = {}
        for index, key in functions.items():
            expected = exports.get(key.encode())
            if key.partition("#")[0] in DIRECT_INTERFACES:
                continue
            if expected is None:
                missing.append((index, key))
                continue
            if expected != types[index]:
                raise UnsupportedBinary(f"the type of {key} is not that of WASI 0.2")
            definition = self._outline.definition("core-func", index)
            realloc = definition.realloc if isinstance(definition, LoweredFunction) else None
            if realloc is not None and len(self._reallocs) > 1:
                position = identities.index(self._identity("core-func", realloc))
                thunks.setdefault((key, position), []).append(index)
                continue
            if key not in direct:
                direct[key] = self._built.core_export("core-func", self._library, key.encode())
            self._new["core-func", index] = direct[key]
        self._add_thunks(thunks)
        self._add_unavailable(missing)

    def _distinct(self, space: str, indices: list[int | None]) -> list[CoreItem]:
        """Return the items without those that are aliases of the same export."""
        distinct: dict[object, CoreItem] = {}
        for index in indices:
            if index is not None:
                distinct.setdefault(self._identity(space, index), (space, index))
        return list(distinct.values())

    def _identity(self, space: str, index: int) -> object:
        definition = self._outline.definition(space, index)
        return definition if isinstance(definition, InstanceExport) else index

    def _add_thunks(self, thunks: dict[tuple[str, int], list[int]]) -> None:
        if not thunks:
            return
        built = self._built
        listed = [(key, realloc, self._types[indices[0]]) for (key, realloc), indices in thunks.items()]
        functions = {
            str(i).encode(): ("core-func", built.core_export("core-func", self._library, key.encode()))
            for i, (key, _, _) in enumerate(listed)
        }
        module = built.module(bytes(wat2wasm(thunk_module(listed))))
        arguments = {b"library": built.bundle(functions), b"memory": self._library_memory}
        instance = built.instance(module, arguments)
        for i, indices in enumerate(thunks.values()):
            new = built.core_export("core-func", instance, str(i).encode())
            self._new.update({("core-func", index): new for index in indices})

    def _add_unavailable(self, missing: list[tuple[int, str]]) -> None:
        if not missing:
            return
        built = self._built
        text = unavailable_module([(key, self._types[index]) for index, key in missing])
        instance = built.instance(built.module(bytes(wat2wasm(text))), {b"library": self._library})
        for i, (index, _) in enumerate(missing):
            self._new["core-func", index] = built.core_export("core-func", instance, str(i).encode())

    def _item(self, space: str, index: int | None) -> CoreItem:
        if index is None or (space, index) not in self._new:
            raise UnsupportedBinary(f"{space} {index} is of an unsupported kind")
        return space, self._new[space, index]

    def _rebuild(self, space: str, index: int) -> None:
        """Add an item of the original component, if it can be."""
        outline, built = self._outline, self._built
        definition = outline.definition(space, index)
        if isinstance(definition, ModuleInstance):
            module = outline.definition("core-module", definition.module)
            assert isinstance(module, CoreModule)
            if module not in self._modules:
                self._modules[module] = built.module(self._binaries[module])
            arguments = {
                name: self._item("core-instance", at)[1] for name, at in definition.arguments.items()
            }
            self._new[space, index] = built.instance(self._modules[module], arguments)
        elif isinstance(definition, InlineInstance):
            items = {
                name: self._item(*at)
                for name, at in definition.exports.items()
                if at in self._new or at[0] != "core-func" or at[1] in self._types
            }
            self._new[space, index] = built.bundle(items)
        elif isinstance(definition, InstanceExport) and (space, index) not in self._new:
            if space not in CORE_SORTS:
                raise UnsupportedBinary(f"{space} {index} is of an unsupported kind")
            instance = self._item("core-instance", definition.instance)[1]
            self._new[space, index] = built.core_export(space, instance, definition.name)
        elif isinstance(definition, LoweredFunction) and (space, index) not in self._new:
            self._lower(index, definition)

    def _lower(self, index: int, definition: LoweredFunction) -> None:
        """Lower a function that the host implements itself."""
        key = self._key(index)
        interface, _, function = (key or "").partition("#")
        if interface not in DIRECT_INTERFACES or definition.memory is None:
            return
        built, (version, functions) = self._built, DIRECT_INTERFACES[interface]
        if interface not in self._direct:
            self._direct[interface] = built.import_instance(f"{interface}@{version}", functions)
        memory = self._item("core-memory", definition.memory)[1]
        realloc = None if definition.realloc is None else self._item("core-func", definition.realloc)[1]
        self._new["core-func", index] = built.lower(self._direct[interface], function, memory, realloc)

    def _access_needs(self, handler: int) -> list[CoreItem]:
        memories = [("core-instance", instance) for instance, _, _ in self._memories]
        memory = [self._memory] if self._memory is not None else []
        return [("core-func", handler), *memories, *memory, *self._reallocs]

    def _is_available(self, item: CoreItem) -> bool:
        """Return whether an item exists, or its instance."""
        definition = self._outline.definition(*item)
        if isinstance(definition, InstanceExport):
            return ("core-instance", definition.instance) in self._new
        return item in self._new

    def _add_access(self, handler: int) -> None:
        built = self._built
        for space, index in self._access_needs(handler):
            if (space, index) not in self._new and self._is_available((space, index)):
                self._rebuild(space, index)
        memory = {} if self._memory is None else {b"memory": self._item(*self._memory)}
        functions = [self._item(*each) for each in self._reallocs]
        memories = [
            built.core_export("core-memory", self._item("core-instance", instance)[1], name)
            for instance, name, _ in self._memories
        ]
        guest = built.bundle(
            {b"handle": self._item("core-func", handler), **memory}
            | {f"realloc-{i}".encode(): each for i, each in enumerate(functions)}
            | {f"memory-{i}".encode(): ("core-memory", each) for i, each in enumerate(memories)}
        )
        index_types = [index_type for _, _, index_type in self._memories]
        text = access_module(len(functions), index_types, addressed=self._memory is not None)
        module = built.module(bytes(wat2wasm(text)))
        arguments = {b"guest": guest, b"memory": self._library_memory, b"library": self._library}
        built.instance(module, arguments)


def _text(name: bytes) -> str:
    """Return the name of a function or resource. Raises UnsupportedBinary."""
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise UnsupportedBinary("name is not UTF-8") from error


def interface_name(name: str) -> str:
    """Return the name of an import or export without its version."""
    return name.partition("@")[0]
