"""Benchmarks: ratios against a peer measured in the same run, on the same machine, interleaved.

The Rust that `make rust-target` had to make is first on the PATH of all of them, and of what they start.
"""

import os
from pathlib import Path

_made = Path(os.environ.get("SVC_TEST_CACHE", "")) / "rust-toolchain"
if (_made / "complete").exists() and str(_made / "bin") not in os.environ["PATH"]:
    os.environ["PATH"] = f"{_made / 'bin'}{os.pathsep}{os.environ['PATH']}"
