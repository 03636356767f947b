"""Compilers to machine code, and the key of what they compile.

It does not import wasmtime, because the command line only looks for machine code.
"""

import hashlib
import platform
from enum import StrEnum
from functools import cache
from pathlib import Path

EXIT_CACHE_ERROR = 4
"""Exit status of the compiler process that cannot write its output; the last line of stderr is the reason."""
_HAS_BASELINE = platform.machine().lower() in {"x86_64", "amd64", "aarch64", "arm64"}


class Compiler(StrEnum):
    """wasmtime's compilers to machine code."""

    OPTIMIZING = "cranelift"
    BASELINE = "winch"
    """Takes a third of the time and produces code of half the speed. It does not support every proposal."""


def compilers(*, fast: bool) -> tuple[Compiler, ...]:
    """Return the compilers to try, in order."""
    return (Compiler.BASELINE, Compiler.OPTIMIZING) if fast and _HAS_BASELINE else (Compiler.OPTIMIZING,)


@cache
def code_key(compiler: Compiler) -> str:
    """Return the part of the cache key that covers wasmtime, its settings, and svc's additions."""
    # The compiler process, which does not call this function, starts a sixth faster without this import.
    from importlib.metadata import version

    return f"wasmtime-{version('wasmtime')}-{compiler}-10-{_additions()}"


@cache
def _additions() -> str:
    """Return a digest of what compilation adds to components."""
    folder, digest = Path(__file__).parents[1], hashlib.sha256()
    paths = (*folder.glob("weave/*.py"), folder / "binary" / "preinit.py", folder.with_name("wasm_binary.py"))
    for path in (folder / "guest_side" / "library.wasm", *sorted(paths)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
