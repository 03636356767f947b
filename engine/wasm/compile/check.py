"""Rules for the imports and exports of a component, checked before it is compiled or run.

The names come from the binary's outline, or from wasmtime if this project cannot read the outline.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.wasm import wasi
from engine.wasm.binary.memory_probe import HANDLER_INTERFACE as HANDLER
from engine.wasm.binary.memory_probe import METERED_HANDLE
from engine.wasm.binary.reader import read_outline
from engine.wasm.compile.component_file import ComponentRejected, read_component
from engine.wasm.wasi.registry import FUNCTIONS
from engine.wasm_binary import UnsupportedBinary

for _module in pkgutil.iter_modules(wasi.__path__, "engine.wasm.wasi."):
    importlib.import_module(_module.name)
HOSTED_INTERFACES = frozenset(name.split("#")[0] for name in FUNCTIONS) | {
    "wasi:filesystem/types",
    "wasi:sockets/tcp",
    "wasi:sockets/udp",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
}
_VERSION = re.compile(r"0\.2\.\d+")


def interface_name(name: str) -> str:
    """Return the name of an import or export without its version."""
    return name.partition("@")[0]


def check_names(imports: Iterable[str], exports: Iterable[str]) -> str:
    """Return the export name of the handler.

    Raises `ComponentRejected` for a component without a handler or with unavailable imports.
    """
    exports = list(exports)
    handler = next(
        (name for name in exports if interface_name(name) == HANDLER and _is_supported_version(name)), None
    )
    if handler is None:
        others = ", ".join(name for name in exports if name != METERED_HANDLE) or "nothing"
        raise ComponentRejected(
            f"the component does not export {HANDLER}@0.2 (it exports {others})",
            "Build it for the wasi:http/proxy world, version 0.2.",
        )
    unavailable = sorted(
        name
        for name in imports
        if interface_name(name) not in HOSTED_INTERFACES or not _is_supported_version(name)
    )
    if unavailable:
        raise ComponentRejected(
            f"the component imports {', '.join(unavailable)}, which svc does not provide",
            "Import only WASI 0.2: cli, clocks, filesystem, http, io, random, sockets.",
        )
    return handler


def _is_supported_version(name: str) -> bool:
    """Return whether the version is 0.2; packages other than WASI's have no version rule."""
    return not name.startswith("wasi:") or _VERSION.fullmatch(name.partition("@")[2]) is not None


def check_component(path: Path) -> None:
    """Check a file as far as its outline can be read. Raises `ComponentRejected`."""
    binary = read_component(path)
    # The host trusts the result of this export. The complete binary is searched, because a component whose
    # outline is unsupported may still run.
    if METERED_HANDLE.encode() in binary:
        raise ComponentRejected(f"the component uses the reserved name {METERED_HANDLE}", "Rename it.")
    try:
        outline = read_outline(binary)
    except UnsupportedBinary:
        return
    check_names(outline.imports, outline.exports)


@contextmanager
def error_context(resource: str) -> Iterator[None]:
    """Prefix a rejection with the name of the resource. Raises `ComponentRejected`."""
    try:
        yield
    except ComponentRejected as error:
        raise ComponentRejected(f"resource {resource}: {error.message}", error.hint) from error
