"""`wasi:filesystem@0.2` without preopened folders: guests cannot open files.

Methods of descriptors are not registered, because a guest cannot hold a descriptor. The linker binds every
unregistered function to a trap that names it.
"""

from engine.wasm.execution.run_state import RunState
from engine.wasm.wasi.io import IoError
from engine.wasm.wasi.registry import host, resources_without_instances

resources_without_instances("descriptor", "directory-entry-stream")


@host("wasi:filesystem/preopens", "get-directories")
def get_directories(run: RunState) -> list[tuple[object, str]]:
    """Return an empty list."""
    return []


@host("wasi:filesystem/types", "filesystem-error-code")
def filesystem_error_code(run: RunState, error: IoError) -> None:
    """Return `None`: no stream belongs to a file."""
