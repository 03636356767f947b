"""What a component may import and must export, told before anything is compiled or run.

Owns the rules; `linker.py` binds what passed. The names come from the binary's outline, or from the
compiler's own view where this project cannot read the outline.
"""

import importlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import SvcError
from engine.wasm.binary.memory_probe import HANDLER_INTERFACE as HANDLER
from engine.wasm.binary.memory_probe import METERED_HANDLE as METERED
from engine.wasm.binary.reader import UnsupportedBinary, read_outline
from engine.wasm.wasi.registry import FUNCTIONS

for _family in (
    *("io", "clocks", "random", "cli", "http_fields", "http_bodies"),
    *("http_incoming", "http_outgoing", "filesystem", "sockets", "script", "door", "fast_streams"),
):
    importlib.import_module(f"engine.wasm.wasi.{_family}")
HOSTED_INTERFACES = frozenset(name.split("#")[0] for name in FUNCTIONS) | {
    "wasi:filesystem/types",
    "wasi:sockets/tcp",
    "wasi:sockets/udp",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
}
_VERSION = re.compile(r"0\.2\.\d+")


class ComponentRejected(SvcError):
    """The file is not a component that this engine can run."""

    code = "component-rejected"


def interface_name(name: str) -> str:
    """Return an import's or export's name without its version."""
    return name.partition("@")[0]


def check_names(imports: Iterable[str], exports: Iterable[str]) -> str:
    """Return the name that the handler is exported by.

    Raises `ComponentRejected` for a component without a handler or with imports that are not hosted.
    """
    exports = list(exports)
    handler = next(
        (name for name in exports if interface_name(name) == HANDLER and _is_supported_version(name)), None
    )
    if handler is None:
        found = ", ".join(name for name in exports if name != METERED) or "nothing"
        raise ComponentRejected(
            f"the component does not export {HANDLER}@0.2 (it exports {found})",
            "Build it for the wasi:http/proxy world, version 0.2.",
        )
    strange = sorted(
        name
        for name in imports
        if interface_name(name) not in HOSTED_INTERFACES or not _is_supported_version(name)
    )
    if strange:
        raise ComponentRejected(
            f"the component imports {', '.join(strange)}, which is not hosted",
            "Only WASI 0.2 (cli, clocks, filesystem, http, io, random, sockets) can be imported.",
        )
    return handler


def _is_supported_version(name: str) -> bool:
    """Whether the version is one of 0.2; only WASI's own packages are held to it."""
    return not name.startswith("wasi:") or _VERSION.fullmatch(name.partition("@")[2]) is not None


def check_component(path: Path) -> None:
    """Check a file as far as its outline can be read. Raises `ComponentRejected`."""
    try:
        binary = path.read_bytes()
    except OSError as error:
        raise ComponentRejected(
            f"{path.name} can not be read: {error.strerror}", "Build it again."
        ) from error
    # The host believes what this export returns. Looked for in all of the binary, since one that can not be
    # scanned may run all the same.
    if METERED.encode() in binary:
        raise ComponentRejected(f"the component has the name {METERED}, which is svc's own", "Rename it.")
    try:
        outline = read_outline(binary)
    except UnsupportedBinary:
        return
    check_names(outline.imports, outline.exports)


def capabilities(component: bytes) -> frozenset[str]:
    """Return the packages that a component imports interfaces of: `wasi:http`, `wasi:sockets`.

    What svc's own lanes put in (`svc:…`) gives no component more than others have, and is left out. One whose
    outline can not be read has a capability of its own, `unknown`.
    """
    try:
        packages = {name.partition("/")[0] for name in read_outline(component).imports}
        return frozenset(package for package in packages if not package.startswith("svc:"))
    except UnsupportedBinary:
        return frozenset({"unknown"})


@contextmanager
def error_context(resource: str) -> Iterator[None]:
    """Let a refusal name the Resource whose component it is about."""
    try:
        yield
    except ComponentRejected as error:
        raise ComponentRejected(f"resource {resource}: {error.message}", error.hint) from error
