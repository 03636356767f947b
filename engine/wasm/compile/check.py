"""Rules for the imports and exports of a component, checked before it is compiled or run.

The names come from the outline of the binary. A component whose outline cannot be read passes here, and fails
when it is compiled.
"""

import re
from pathlib import Path

from engine.wasm.binary.reader import read_outline
from engine.wasm.compile.component_file import ComponentRejected, read_component
from engine.wasm.weave.builder import DIRECT_INTERFACES
from engine.wasm.weave.weaver import HANDLER_INTERFACE as HANDLER
from engine.wasm.weave.weaver import interface_name, library
from engine.wasm_binary import UnsupportedBinary

HOSTED_INTERFACES = {key.decode().partition("#")[0] for key in library().functions.exports if b"wasi:" in key}
HOSTED_INTERFACES |= {"wasi:filesystem/types", "wasi:sockets/tcp", "wasi:sockets/udp", *DIRECT_INTERFACES}
HOSTED_INTERFACES |= {"wasi:cli/terminal-input", "wasi:cli/terminal-output"}
_VERSION = re.compile(r"0\.2\.\d+")


def check_component(path: Path, digest: str = "") -> None:
    """Check the names of a file (`read_component`) as far as its outline can be read.

    Raises `ComponentRejected` for a component without a handler or with unavailable imports.
    """
    try:
        outline = read_outline(read_component(path, digest))
    except UnsupportedBinary:
        return
    supported = [name for name in outline.exports if _is_supported(name)]
    if HANDLER not in map(interface_name, supported):
        exported = ", ".join(outline.exports) or "nothing"
        raise ComponentRejected(
            f"the component does not export {HANDLER}@0.2 (it exports {exported})",
            "Build it for the wasi:http/proxy world, version 0.2.",
        )
    hosted = {name for name in outline.imports if interface_name(name) in HOSTED_INTERFACES}
    if unavailable := [name for name in outline.imports if name not in hosted or not _is_supported(name)]:
        raise ComponentRejected(
            f"the component imports {', '.join(sorted(unavailable))}, which svc does not provide",
            "Import only WASI 0.2: cli, clocks, filesystem, http, io, random, sockets.",
        )


def _is_supported(name: str) -> bool:
    """Return whether the version is 0.2; packages other than WASI's have no version rule."""
    return not name.startswith("wasi:") or _VERSION.fullmatch(name.partition("@")[2]) is not None
