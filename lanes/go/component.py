"""Conversion of a wasip1 core module of Go to a wasi:http component.

The component is assembled from text around an empty module, which Go's module then replaces. `adapter.wat`
has the adapter modules. Go repeats an import that several packages declare, which a component must not have,
so each import gets a unique name. The format is in the WebAssembly core specification, binary format of
modules.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.wasm_binary import (
    COMPONENT_HEADER,
    CORE_MODULE,
    EXPORTS,
    FUNCTION,
    IMPORTS,
    MODULE_HEADER,
    TYPES,
    BinaryReader,
    CoreSignature,
    UnsupportedBinary,
    name,
    read_exports,
    read_sections,
    read_types,
    section,
    signature_at,
    uleb,
)
from lanes.wit_imports import parse_interfaces


@dataclass(frozen=True, slots=True)
class Import:
    """An imported function. `alias` is its name in the renamed module."""

    module: str
    name: str
    alias: str
    signature: CoreSignature


@dataclass(frozen=True, slots=True)
class UnboundModule:
    """A module with unique import names. `binary` is the complete module."""

    binary: bytes
    imports: list[Import]
    exports: frozenset[bytes]


def read(data: bytes) -> UnboundModule:
    """Read a module. Raises `UnsupportedBinary` unless it has the form that Go writes."""
    binary = bytearray(MODULE_HEADER)
    types: list[CoreSignature] = []
    imports: list[Import] = []
    exports: frozenset[bytes] = frozenset()
    for kind, body in read_sections(data):
        if kind == TYPES:
            types = read_types(body)
        elif kind == IMPORTS:
            body, imports = _rename_imports(BinaryReader(body), types)
        elif kind == EXPORTS:
            exports = frozenset(read_exports(body))
        binary += section(kind, body)
    return UnboundModule(bytes(binary), imports, exports)


def _rename_imports(reader: BinaryReader, types: list[CoreSignature]) -> tuple[bytes, list[Import]]:
    count = reader.uleb()
    binary, imports = bytearray(uleb(count)), []
    counts: dict[tuple[str, str], int] = {}
    for _ in range(count):
        module, field = reader.text(), reader.text()
        if reader.byte() != FUNCTION:
            raise UnsupportedBinary(f"{module} {field} is imported and is not a function")
        index = reader.uleb()
        occurrence = counts[module, field] = counts.get((module, field), 0) + 1
        alias = field if occurrence == 1 else f"{field} {occurrence}"
        imports.append(Import(module, field, alias, signature_at(types, index)))
        binary += name(module.encode()) + name(alias.encode()) + b"\0" + uleb(index)
    return bytes(binary), imports


VERSION = "0.2.4"
HANDLER = f"wasi:http/incoming-handler@{VERSION}"
HANDLE = f"{HANDLER}#handle"
_PREVIEW1 = "wasi_snapshot_preview1"
_LIBRARY = "svc"
"""Module name of the adapter functions that the guest library imports."""
_ARENA = "svc_arena"
_ENOSYS, _ENOENT = 52, 44
_I32 = b"\x7f"
"""The result type of functions that return an error number."""
_DROP = "[resource-drop]"
_ADAPTER_CALLS = {
    "wasi:cli/environment": ("get-environment",),
    "wasi:cli/exit": ("exit", "exit-with-code"),
    "wasi:cli/stdout": ("get-stdout",),
    "wasi:cli/stderr": ("get-stderr",),
    "wasi:clocks/wall-clock": ("now",),
    "wasi:clocks/monotonic-clock": ("now", "subscribe-duration", "subscribe-instant"),
    "wasi:random/random": ("get-random-bytes",),
    "wasi:io/streams": ("[method]output-stream.blocking-write-and-flush",),
    "wasi:io/poll": ("[method]pollable.ready", "[method]pollable.block", "poll", "[resource-drop]pollable"),
}


class NotHosted(Exception):
    """The module imports functions that are not available. `names` are "module function"."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


class NoHandler(Exception):
    """The module lacks the exports of the guest library."""


def component(module: UnboundModule) -> bytes:
    """Return the component of a module. Raises `NotHosted` and `NoHandler`."""
    if not {HANDLE.encode(), _ARENA.encode(), b"_initialize", b"memory"} <= module.exports:
        raise NoHandler
    # Imported on demand: builds of other lanes do without it.
    from wasmtime import wat2wasm

    frame: bytes = bytes(wat2wasm(_text(module)))
    binary, pending = bytearray(COMPONENT_HEADER), True
    for kind, body in read_sections(frame, COMPONENT_HEADER):
        if pending and kind == CORE_MODULE:
            body, pending = module.binary, False
        binary += section(kind, body)
    return bytes(binary)


@cache
def _adapter() -> str:
    return Path(__file__).with_name("adapter.wat").read_text(encoding="utf-8")


def _text(module: UnboundModule) -> str:
    calls: dict[str, set[str]] = {
        f"{name}@{VERSION}": set(functions) for name, functions in _ADAPTER_CALLS.items()
    }
    for item in module.imports:
        if item.module.startswith("wasi:"):
            calls.setdefault(item.module, set()).add(item.name)
    interfaces = parse_interfaces(calls)
    unknown = sorted({f"{i.module} {i.name}" for i in module.imports if not _known(i, interfaces.functions)})
    if unknown:
        raise NotHosted(unknown)
    lowered, stubs = [], []
    names: dict[tuple[str, str], str] = {}
    for interface, functions in calls.items():
        instance = interfaces.instances[interface]
        for function in sorted(functions):
            name = names[interface, function] = f"$host-{len(names)}"
            lowered.append(_lower(name, instance, function))
    targets = []
    for item in module.imports:
        if item.module == _LIBRARY:
            targets.append(f'$allocator "{item.name}"')
        elif item.module != _PREVIEW1:
            targets.append(names[item.module, item.name])
        elif f'(export "{item.name}")' in _adapter():
            targets.append(f'$preview1 "{item.name}"')
        else:
            stubs.append(_stub(item))
            targets.append(f'$stubs "{item.alias}"')
    count = len(module.imports)
    nl = "\n"
    return f"""(component $world
{interfaces.text}
(core module $main
  (memory (export "memory") 1)
  (func (export "_initialize"))
  (func (export "{_ARENA}") (result i32) unreachable)
  (func (export "{HANDLE}") (param i32 i32)))
(core module $shim
  (table (export "table") {count} {count} funcref)
{nl.join(_trampoline(n, item) for n, item in enumerate(module.imports))})
(core instance $shim (instantiate $shim))
(core instance $main (instantiate $main
{_grouped(module)}))
{_adapter()}
(core instance $allocator (instantiate $allocator (with "main" (instance $main))))
(alias core export $main "memory" (core memory $memory))
(alias core export $allocator "realloc" (core func $realloc))
{nl.join(lowered)}
(core module $stubs
{nl.join(stubs)})
(core instance $stubs (instantiate $stubs))
(core instance $preview1 (instantiate $preview1
  (with "main" (instance $main))
  (with "allocator" (instance $allocator))
  (with "wasi" (instance {" ".join(_adapter_imports(names))}))))
(core module $fixup
  (import "" "table" (table {count} funcref))
{nl.join(f'  (import "" "{n}" (func $f{n} {i.signature.text()}))' for n, i in enumerate(module.imports))}
  (elem (i32.const 0) func {" ".join(f"$f{n}" for n in range(count))}))
(core instance (instantiate $fixup (with "" (instance
  (export "table" (table $shim "table"))
{nl.join(f'  (export "{n}" (func {target}))' for n, target in enumerate(targets))}))))
(core instance (instantiate $initialize (with "main" (instance $main))))
(alias export {interfaces.instances[f"wasi:http/types@{VERSION}"]} "incoming-request" (type $handled))
(alias export {interfaces.instances[f"wasi:http/types@{VERSION}"]} "response-outparam" (type $answered))
(func $handle (param "request" (own $handled)) (param "response-out" (own $answered))
  (canon lift (core func $main "{HANDLE}")))
(instance $handler (export "handle" (func $handle)))
(export "{HANDLER}" (instance $handler))
)"""


def _known(item: Import, functions: dict[str, frozenset[str]]) -> bool:
    if item.module in (_PREVIEW1, _LIBRARY):
        return True
    return item.name.startswith(_DROP) or item.name in functions.get(item.module, ())


def _lower(name: str, instance: str, function: str) -> str:
    if function.startswith(_DROP):
        resource = function.removeprefix(_DROP)
        return (
            f'(alias export {instance} "{resource}" (type {name}-type))\n'
            f"(core func {name} (canon resource.drop {name}-type))"
        )
    return (
        f'(core func {name} (canon lower (func {instance} "{function}") (memory $memory) (realloc $realloc)))'
    )


def _adapter_imports(names: dict[tuple[str, str], str]) -> list[str]:
    exports = []
    for interface, functions in _ADAPTER_CALLS.items():
        for function in functions:
            export = "wall-clock now" if interface == "wasi:clocks/wall-clock" else function
            exports.append(f'(export "{export}" (func {names[f"{interface}@{VERSION}", function]}))')
    return exports


def _trampoline(number: int, item: Import) -> str:
    gets = " ".join(f"local.get {n}" for n in range(len(item.signature.parameters)))
    text = item.signature.text()
    return f'  (func (export "{number}") {text} {gets} i32.const {number} call_indirect {text})'


def _stub(item: Import) -> str:
    errno = _ENOENT if item.name.startswith("path_") else _ENOSYS
    body = f"i32.const {errno}" if item.signature.results == _I32 else "unreachable"
    return f'  (func (export "{item.alias}") {item.signature.text()} {body})'


def _grouped(module: UnboundModule) -> str:
    """Return the arguments of the main module's instance, grouped by imported module."""
    groups: dict[str, list[str]] = {}
    for number, item in enumerate(module.imports):
        groups.setdefault(item.module, []).append(f'(export "{item.alias}" (func $shim "{number}"))')
    return "\n".join(f'  (with "{name}" (instance {" ".join(items)}))' for name, items in groups.items())
