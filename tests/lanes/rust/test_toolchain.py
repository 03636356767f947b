"""Missing Rust tools are reported with the command that installs them."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.lane import ToolchainMissing
from lanes.rust.cargo import TARGET
from lanes.rust.lane import RustLane
from lanes.rust.toolchain import error_line
from svc_tui.main import run
from tests.lanes.rust.crate import HELLO, Crate


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def missing(crate: Crate) -> ToolchainMissing:
    with pytest.raises(ToolchainMissing) as caught:
        crate.build()
    with pytest.raises(ToolchainMissing) as of_install:
        asyncio.run(RustLane().install(crate.cache, lambda line: None))
    assert of_install.value.message == caught.value.message
    return caught.value


def test_missing_cargo_is_reported(crate: Crate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crate.program(HELLO)
    monkeypatch.setenv("PATH", str(tmp_path))
    error = missing(crate)
    assert error.message == "the rust lane: cargo is not on PATH"
    assert "rustup.rs" in error.hint


@pytest.mark.parametrize("name", ["cargo", "rustc"])
def test_outdated_tool_is_reported(
    crate: Crate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    crate.program(HELLO)
    folder = tmp_path / "bin"
    for tool in ("cargo", "rustc"):
        version = "1.81.0" if tool == name else "1.90.0-nightly"
        wrong = "echo 'error: could not find specification for target \"wasm32-wasip2\"' >&2; exit 1"
        program(folder, tool, f'[ "$1" = --version ] && echo "{tool} {version} (x)" && exit\n{wrong}')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
    error = missing(crate)
    assert f"{name} 1.81.0 is too old" in error.message and "1.82" in error.message
    assert "rustup update" in error.hint


def test_failing_tool_is_reported_with_its_error(
    crate: Crate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crate.program(HELLO)
    folder = tmp_path / "bin"
    for tool in ("cargo", "rustc"):
        program(folder, tool, "echo \"error: toolchain 'stable' is not installed\" >&2; exit 1")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
    assert "toolchain 'stable' is not installed" in missing(crate).message


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            "info: syncing\nerror: no default toolchain\n\nStack backtrace:\n   0: std::rt\n   1: main\n",
            "error: no default toolchain",
        ),
        ("Error: disk full\n  Caused by: x\n", "Error: disk full"),
        ("no such device\nline two\n\n", "line two"),
        ("", "no output"),
    ],
)
def test_error_line_is_the_first_error_else_the_last_line(output: str, line: str) -> None:
    assert error_line(output) == line


def test_doctor_shows_the_error_of_a_tool_without_its_backtrace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bin"
    for tool in ("cargo", "rustc"):
        lines = (
            "error: rustup could not choose a version of cargo\\nStack backtrace:\\n   9: __libc_start_main"
        )
        program(folder, tool, f"printf '{lines}\\n' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    run(["doctor"])
    out = capsys.readouterr().out
    assert "does not work: error: rustup could not choose a version of cargo" in out
    assert "__libc_start_main" not in out
    assert "rustup default stable" in out


@pytest.mark.slow
def test_missing_target_is_reported(crate: Crate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty sysroot is the state of rustup before `rustup target add`."""
    crate.program(HELLO)
    real = shutil.which("rustc")
    empty = tmp_path / "sysroot"
    empty.mkdir()
    monkeypatch.setenv(
        "RUSTC", str(program(tmp_path / "bin", "rustc", f'exec "{real}" --sysroot "{empty}" "$@"'))
    )
    error = missing(crate)
    assert f"has no {TARGET}" in error.message
    assert error.hint == "Run: rustup target add wasm32-wasip2"


@pytest.mark.slow
def test_complete_toolchain_has_no_problems(crate: Crate) -> None:
    cargo, rustc, target = asyncio.run(RustLane().tools(crate.cache))
    assert [tool.name for tool in (cargo, rustc, target)] == ["cargo", "rustc", TARGET]
    assert [tool.problem for tool in (cargo, rustc, target)] == ["", "", ""]
    assert cargo.version and rustc.version and Path(target.path).is_dir()
    assert not any(tool.managed for tool in (cargo, rustc, target))
    asyncio.run(RustLane().install(crate.cache, lambda line: None))


def test_identity_changes_with_tools_and_flags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def identity() -> str:
        return RustLane().identity(tmp_path)

    rustup = tmp_path / "rustup"
    monkeypatch.setenv("RUSTUP_HOME", str(rustup))
    observed = [identity()]
    components = rustup / "toolchains" / "stable" / "lib" / "rustlib" / "components"
    components.parent.mkdir(parents=True)
    components.write_text("rust-std-wasm32-wasip2\n")
    observed.append(identity())
    monkeypatch.setenv("RUSTFLAGS", "-Copt-level=1")
    observed.append(identity())
    monkeypatch.setenv("CARGO_TERM_COLOR", "always")
    assert identity() == observed[-1]
    monkeypatch.setenv("RUSTC", str(program(tmp_path / "bin", "rustc", "exit 1")))
    observed.append(identity())
    assert len(set(observed)) == 4


@pytest.mark.slow
def test_setup_of_a_complete_test_toolchain_changes_nothing(prefix: Path) -> None:
    if not (prefix / "complete").exists():
        pytest.skip("rustup's own target is used here")
    before = (prefix / "complete").stat().st_mtime_ns
    script = Path(__file__).resolve().parents[2] / "toolchains" / "rust" / "setup.sh"
    process = subprocess.run([script, prefix], capture_output=True, text=True, check=True)
    assert process.stdout == process.stderr == ""
    assert (prefix / "complete").stat().st_mtime_ns == before
