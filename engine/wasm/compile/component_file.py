"""Reader of component files. It imports no engine, because the command line reads components too.

A file has a component, or a frame of one (`files/compressed.py`). If that differs from a template, the file
`TEMPLATE` beside it has the template's frame.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from engine.errors import SvcError
from engine.files.compressed import FRAME, FrameCorrupt, decompress
from engine.wasm.compile.compilers import MAX_COMPONENT_BYTES
from engine.wasm_binary import COMPONENT_HEADER


class ComponentRejected(SvcError):
    """The file is not a component that this engine can run."""

    code = "component-rejected"


TEMPLATE = "template.zst"


def read_component(path: Path, digest: str = "") -> bytes:
    """Return the component in a file. Raises `ComponentRejected` for any but the binary format.

    One in a frame must have the sha256 `digest` (hex).
    """
    try:
        if path.stat().st_size > MAX_COMPONENT_BYTES:
            raise ComponentRejected(
                f"{path.name} is larger than {MAX_COMPONENT_BYTES >> 20} MiB",
                "Leave out files that the component embeds, and debug information.",
            )
        binary = path.read_bytes()
        if binary.startswith(FRAME):
            template = path.with_name(TEMPLATE)
            binary = _read_frame(path, binary, template.read_bytes() if template.exists() else b"", digest)
    except OSError as error:
        raise ComponentRejected(f"cannot read {path.name}: {error.strerror}", "Build it again.") from error
    # wasmtime also reads text, in which a name can be written so that the rules below miss it.
    if not binary.startswith(COMPONENT_HEADER):
        raise ComponentRejected(
            f"{path.name} is not the binary of a WebAssembly component",
            "Build a component (not a core module, not text) for WASI 0.2.",
        )
    return binary


def _read_frame(path: Path, frame: bytes, template: bytes, digest: str) -> bytes:
    try:
        base = decompress(template, limit=MAX_COMPONENT_BYTES) if template else b""
        binary = decompress(frame, base, limit=MAX_COMPONENT_BYTES)
        reason = "it is not the difference from its template" if template else "its digest is another"
        if sha256(binary).hexdigest() == digest:
            return binary
    except FrameCorrupt as error:
        reason = f"a compressed file is damaged ({error})"
    raise ComponentRejected(
        f"{path.name} is not the component sha256:{digest}: {reason}",
        "Run svc deploy in the project again, and check the disk.",
    )


@contextmanager
def error_context(resource: str) -> Iterator[None]:
    """Prefix a rejection with the name of the resource. Raises `ComponentRejected`."""
    try:
        yield
    except ComponentRejected as error:
        raise ComponentRejected(f"resource {resource}: {error.message}", error.hint) from error
