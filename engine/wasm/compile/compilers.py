"""Compilers to machine code, the key of what they compile, and the limits of the process that runs them.

It does not import wasmtime, because the command line only looks for machine code. The process applies the
limits to itself before it reads a component, which strangers may have made. Measured on the largest builds of
js and go: 30 s of CPU time, 1.9 GiB for a component of 200 MB.
"""

import hashlib
import os
import platform
import sys
import threading
from enum import StrEnum
from functools import cache
from pathlib import Path

from engine.confinement import limit, step_back

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


CPU_SECONDS = 240
"""Maximum CPU time of a compilation, over all threads."""
WALL_SECONDS = 900
"""Maximum duration of a compilation, for a busy machine."""
MEMORY_BYTES = 3 << 30
"""Maximum writable memory. Enforced on Linux; the limit of macOS does not count mapped memory."""
MAX_COMPONENT_BYTES = 256 << 20
MAX_CODE_BYTES = 512 << 20
"""Maximum size of a component, and of its machine code."""
CONCURRENT = 2
"""Maximum compilations at once in a process of svc. Each uses all processors, at low priority."""
NICENESS = 10
EXIT_CODE_TOO_LARGE = 5
"""Exit status of the compiler process for machine code above its limit."""


def confine(cpu_seconds: int, memory_bytes: int) -> None:
    """Apply the limits to this process, and end it when its parent process ends.

    The parent holds the other end of stdin, which is closed with it.
    """
    step_back(NICENESS)
    limit(cpu_seconds, memory_bytes, final=True)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
