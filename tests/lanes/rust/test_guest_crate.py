"""The guest library by itself: its unit tests and the examples of its documentation, natively."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lanes.rust.conftest import GUEST

pytestmark = pytest.mark.slow


def cargo(folder: Path, *arguments: str, **environ: str) -> str:
    done = subprocess.run(
        ["cargo", *arguments], cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_units_and_examples(tmp_path: Path) -> None:
    folder = tmp_path / "svc-guest"
    shutil.copytree(GUEST, folder)
    printed = cargo(folder, "test")
    assert printed.count("test result: ok") == 2


def test_it_compiles_without_a_warning_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "svc-guest"
    shutil.copytree(GUEST, folder)
    for options in ((), ("--target", "wasm32-wasip2")):
        cargo(folder, "build", *options, RUSTFLAGS="-Dwarnings")
    cargo(folder, "doc", "--no-deps", RUSTDOCFLAGS="-Dwarnings")


def test_nothing_but_sources_is_handed_out() -> None:
    suffixes = {path.suffix for path in GUEST.rglob("*") if path.is_file()}
    assert suffixes == {".rs", ".toml", ".bin", ".md"}


def test_the_programs_in_the_documentation_compile(tmp_path: Path) -> None:
    shutil.copytree(GUEST, tmp_path / "svc-guest")
    manifest = (
        '[package]\nname = "docs"\nedition = "2021"\n\n[dependencies]\nsvc-guest = { path = "svc-guest" }\n'
    )
    (tmp_path / "Cargo.toml").write_text(manifest)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lib.rs").write_text('#![doc = include_str!("../page.md")]\n')
    shutil.copy(GUEST.parents[2] / "docs" / "guides" / "build" / "rust.md", tmp_path / "page.md")
    assert "5 passed" in cargo(tmp_path, "test", "--doc")
