"""Reader of component files. It imports no engine, because the command line reads components too."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import SvcError
from engine.wasm.compile.limits import MAX_COMPONENT_BYTES
from engine.wasm_binary import COMPONENT_HEADER


class ComponentRejected(SvcError):
    """The file is not a component that this engine can run."""

    code = "component-rejected"


def read_component(path: Path) -> bytes:
    """Return the content of a component file. Raises `ComponentRejected` for any but the binary format."""
    try:
        if path.stat().st_size > MAX_COMPONENT_BYTES:
            raise ComponentRejected(
                f"{path.name} is larger than {MAX_COMPONENT_BYTES >> 20} MiB",
                "Leave out files that the component embeds, and debug information.",
            )
        binary = path.read_bytes()
    except OSError as error:
        raise ComponentRejected(f"cannot read {path.name}: {error.strerror}", "Build it again.") from error
    # wasmtime also reads text, in which a name can be written so that the rules below miss it.
    if not binary.startswith(COMPONENT_HEADER):
        raise ComponentRejected(
            f"{path.name} is not the binary of a WebAssembly component",
            "Build a component (not a core module, not text) for WASI 0.2.",
        )
    return binary


@contextmanager
def error_context(resource: str) -> Iterator[None]:
    """Prefix a rejection with the name of the resource. Raises `ComponentRejected`."""
    try:
        yield
    except ComponentRejected as error:
        raise ComponentRejected(f"resource {resource}: {error.message}", error.hint) from error
