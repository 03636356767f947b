"""Rules for the imports and exports of a component, checked before it is compiled or run.

The names come from the outline of the binary. A component whose outline cannot be read passes here, and fails
when it is compiled.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from engine.wasm.binary.reader import read_outline
from engine.wasm.compile.component_file import ComponentRejected, read_component
from engine.wasm.weave.builder import DIRECT_INTERFACES
from engine.wasm.weave.weaver import HANDLER_INTERFACE as HANDLER
from engine.wasm.weave.weaver import interface_name, library
from engine.wasm_binary import UnsupportedBinary

HOSTED_INTERFACES = (
    frozenset(
        key.decode().partition("#")[0] for key in library().functions.exports if key.startswith(b"wasi:")
    )
    | frozenset(DIRECT_INTERFACES)
    | {
        "wasi:filesystem/types",
        "wasi:sockets/tcp",
        "wasi:sockets/udp",
        "wasi:cli/terminal-input",
        "wasi:cli/terminal-output",
    }
)
_VERSION = re.compile(r"0\.2\.\d+")


def check_names(imports: Iterable[str], exports: Iterable[str]) -> str:
    """Return the export name of the handler.

    Raises `ComponentRejected` for a component without a handler or with unavailable imports.
    """
    exports = list(exports)
    handler = next(
        (name for name in exports if interface_name(name) == HANDLER and _is_supported_version(name)), None
    )
    if handler is None:
        others = ", ".join(exports) or "nothing"
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


def check_component(path: Path, digest: str = "") -> None:
    """Check a file (`read_component`) as far as its outline can be read. Raises `ComponentRejected`."""
    try:
        outline = read_outline(read_component(path, digest))
    except UnsupportedBinary:
        return
    check_names(outline.imports, outline.exports)
