"""`wasi:filesystem@0.2`: no preopened folders, hence no descriptor and nothing to open.

Methods of descriptors are not registered: a guest can hold no descriptor to call them on, and the linker
answers every function that is not here with a trap that names it.
"""

from engine.wasm.execution.run_state import Run
from engine.wasm.wasi.io import IoError
from engine.wasm.wasi.registry import host, resource


@resource("descriptor")
class Descriptor:
    """Never given to a guest."""


@resource("directory-entry-stream")
class DirectoryEntryStream:
    """Never given to a guest."""


@host("wasi:filesystem/preopens", "get-directories")
def get_directories(run: Run) -> list[tuple[Descriptor, str]]:
    """A run has no folders."""
    return []


@host("wasi:filesystem/types", "filesystem-error-code")
def filesystem_error_code(run: Run, error: IoError) -> None:
    """No stream here is a file's."""
