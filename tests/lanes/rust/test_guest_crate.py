"""The guest library by itself: its unit tests and the examples of its documentation, natively."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lanes.rust.cargo import TARGET
from tests.lanes.rust.crate import GUEST, HELLO, MANIFEST, Crate

pytestmark = pytest.mark.slow
PAGES = [GUEST.parents[2] / "docs" / "guides" / "build" / name for name in ("rust.md", "tables.md")]
WORKSPACE = '\n[workspace]\nmembers = ["docs"]\n'
DOCS_MANIFEST = """\
[package]
name = "docs"
edition = "2021"

[dependencies]
svc-guest = { path = "../svc-guest" }
"""


def cargo(folder: Path, *arguments: str, **environ: str) -> str:
    process = subprocess.run(
        ["cargo", *arguments],
        cwd=folder,
        env={**os.environ, "CARGO_PROFILE_DEV_DEBUG": "0", **environ},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout + process.stderr


def test_unit_tests_and_examples_pass_without_warnings(tmp_path: Path) -> None:
    folder = tmp_path / "svc-guest"
    shutil.copytree(GUEST, folder)
    tested = cargo(folder, "test")
    assert tested.count("test result: ok") == 2
    checked = cargo(folder, "check", "--target", TARGET)
    assert "warning" not in tested + checked
    cargo(folder, "doc", "--no-deps", RUSTDOCFLAGS="-Dwarnings")


def test_guest_library_contains_only_sources() -> None:
    suffixes = {path.suffix for path in GUEST.rglob("*") if path.is_file()}
    assert suffixes == {".rs", ".toml", ".bin", ".md"}


def test_programs_of_the_documentation_and_tests_of_a_crate_pass(crate: Crate) -> None:
    """Two crates of one workspace, so that cargo compiles the guest library for this machine once."""
    crate.program(HELLO + "#[test]\nfn adds() { assert_eq!(1 + 1, 2); }\n", MANIFEST + WORKSPACE)
    crate.write("docs/Cargo.toml", DOCS_MANIFEST)
    modules = (f'#[doc = include_str!("../{page.name}")]\npub mod {page.stem} {{}}\n' for page in PAGES)
    crate.write("docs/src/lib.rs", "".join(modules))
    for page in PAGES:
        shutil.copy(page, crate.workdir / "docs")
    printed = cargo(crate.workdir, "test", "--package", "docs", "--doc")
    assert [printed.count(f"- {page.stem} (line") for page in PAGES] == [7, 1]
    assert "8 passed" in printed
    assert "1 passed" in cargo(crate.workdir, "test", "--package", "api", "--lib")
