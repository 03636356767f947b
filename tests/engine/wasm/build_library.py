"""Builds `library.wasm` of the WASI library: `python -m tests.engine.wasm.build_library`.

It needs rustc with core and alloc for wasm32-wasip2, and rust-lld in its sysroot. The variable RUSTC names
another rustc than that of PATH. The same rustc always gives the same bytes.
"""

import os
import subprocess
from pathlib import Path

from engine.wasm_binary import name, section
from tests.support.tracked import ROOT

SOURCE_FOLDER = ROOT / "engine" / "wasm" / "guest_side"
LIBRARY = SOURCE_FOLDER / "library.wasm"
STACK_BYTES = 4096
MAX_MEMORY_BYTES = 4 << 20
TABLE_BASE = 32
"""The first slots of the library's table have the generated functions that reach the guest's memory."""

_CODEGEN = (
    "opt-level=s", "panic=abort", "codegen-units=1", "lto=fat", "strip=symbols",
    "target-feature=+bulk-memory", "linker=rust-lld", "linker-flavor=wasm-ld", "link-self-contained=no",
)  # fmt: skip
_LINK = (
    "--no-entry", "--gc-sections", "--stack-first", f"-zstack-size={STACK_BYTES}", "--import-memory=m,memory",
    f"--max-memory={MAX_MEMORY_BYTES}", "--export-table", f"--table-base={TABLE_BASE}",
)  # fmt: skip


def version_section(rustc: str) -> bytes:
    """Return the custom section that names the compiler in the library."""
    version = subprocess.run([rustc, "--version"], capture_output=True, check=True).stdout.strip()
    return section(0, name(b"rustc") + version)


def build(output: Path, rustc: str) -> None:
    """Compile the library. Raises subprocess.CalledProcessError if the compiler fails."""
    options = [f"-C{option}" for option in (*_CODEGEN, *(f"link-arg={option}" for option in _LINK))]
    identity = ["--crate-name=guest_side", "--crate-type=cdylib", "--edition=2024", "--target=wasm32-wasip2"]
    paths = [f"--remap-path-prefix={SOURCE_FOLDER}=."]
    command = [rustc, *identity, *options, *paths, "-o", str(output.absolute()), "lib.rs"]
    subprocess.run(command, cwd=SOURCE_FOLDER, check=True)
    output.chmod(0o644)
    output.write_bytes(output.read_bytes() + version_section(rustc))


if __name__ == "__main__":
    build(LIBRARY, os.environ.get("RUSTC", "rustc"))
