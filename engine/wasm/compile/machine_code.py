"""Loading of machine code that `code_cache.py` returned."""

from pathlib import Path

from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component

from engine.errors import SvcError


class CodeRejected(SvcError):
    """wasmtime cannot load a file of machine code."""

    code = "unavailable"

    def __init__(self, path: Path, reason: str) -> None:
        summary = "the machine code of a component cannot be loaded"
        super().__init__(
            f"{summary}: {path}: {' '.join(reason.split())}",
            "Check the disk, delete the file and start svc again.",
            public_message=summary,
        )
        self.path = path


def load_component(engine: Engine, compiled: Path) -> Component:
    """Map a file returned by `compile_component`. Raises `CodeRejected`."""
    try:
        return Component.deserialize_file(engine, str(compiled))
    except WasmtimeError as error:
        raise CodeRejected(compiled, str(error)) from error
