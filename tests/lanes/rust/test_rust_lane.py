"""The rust lane: components, inputs, errors with their positions, and cleanup."""

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.lane import BuildFailed
from engine.manifest.model import Resource
from lanes.rust.lane import RustLane
from svc_tui.terminal import stderr
from tests.lanes.rust.crate import HELLO, MANIFEST, Crate, handler
from tests.lanes.test_command import dies
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def failure(crate: Crate, **options: float) -> BuildFailed:
    with pytest.raises(BuildFailed) as exc_info:
        crate.build(**options)
    return exc_info.value


@pytest.mark.parametrize("mode", ["dev", "deploy"])
def test_hello_program_answers_in_each_mode(crate: Crate, mode: str) -> None:
    crate.program(HELLO)
    artifact = crate.build(mode)  # type: ignore[arg-type]
    (answer,) = crate.ask(artifact, "/")
    assert (answer.status, answer.body, answer.report.outcome) == (200, b"hello\n", "ok")
    assert artifact.component.parent == crate.cache / "rust"
    assert artifact.digest == artifact.component.stem
    assert crate.reported == []


def test_later_build_does_not_change_an_earlier_artifact(crate: Crate) -> None:
    crate.program(HELLO)
    first = crate.build()
    assert crate.build() == first
    crate.write("src/lib.rs", HELLO.replace("hello", "again"))
    second = crate.build()
    assert [crate.ask(artifact, "/")[0].body for artifact in (first, second)] == [b"hello\n", b"again\n"]


def test_binary_crate_may_return_any_error(crate: Crate) -> None:
    crate.guest()
    crate.write("Cargo.toml", MANIFEST.replace('[lib]\ncrate-type = ["cdylib"]\n', ""))
    crate.write(
        "src/main.rs",
        "use svc_guest::*;\ntype Any = Box<dyn std::error::Error>;\n"
        "fn handle(request: Request) -> std::result::Result<Response, Any> {\n"
        '    Ok(Response::text(std::char::from_digit(request.query().parse()?, 10).ok_or("no digit")?))\n'
        "}\nsvc_guest::handler!(handle);\nfn main() {}\n",
    )
    fine, odd, large = crate.ask(crate.build(), "/?7", "/?x", "/?12")
    assert fine.body == b"7"
    assert odd.report.detail == "Error: invalid digit found in string"
    assert large.report.detail == "Error: no digit"


def workspace(crate: Crate, *members: str) -> None:
    crate.root.mkdir(parents=True, exist_ok=True)
    (crate.root / "Cargo.toml").write_text(
        f'[workspace]\nresolver = "2"\nmembers = {list(members)}\n'.replace("'", '"')
    )


def test_workspace_member_is_built_with_inputs_of_other_members(crate: Crate) -> None:
    workspace(crate, "api", "shared")
    shared = crate.root / "shared"
    (shared / "src").mkdir(parents=True)
    (shared / "Cargo.toml").write_text(
        '[package]\nname = "shared"\nversion = "0.1.0"\nedition = "2021"\n\n[lib]\n'
        'crate-type = ["rlib", "cdylib"]\n'
    )
    (shared / "src" / "lib.rs").write_text(
        'pub fn text() -> &\'static str {\n    include_str!("a text.txt")\n}\n'
    )
    (shared / "src" / "a text.txt").write_text("shared\n")
    crate.program(
        handler("Ok(Response::text(shared::text()))"), MANIFEST + 'shared = { path = "../shared" }\n'
    )
    artifact = crate.build()
    assert crate.ask(artifact, "/")[0].body == b"shared\n"
    outside = {path for path in artifact.inputs if not path.is_relative_to(crate.workdir)}
    assert outside == {
        crate.root / "Cargo.toml",
        crate.root / "Cargo.lock",
        shared / "Cargo.toml",
        shared / "src" / "lib.rs",
        shared / "src" / "a text.txt",
    }


def test_output_of_a_build_script_is_not_an_input(crate: Crate) -> None:
    crate.program(handler('Ok(Response::text(include_str!(concat!(env!("OUT_DIR"), "/made.txt"))))'))
    crate.write("text.txt", "made of a text")
    crate.write(
        "build.rs",
        'fn main() {\n    println!("cargo::rerun-if-changed=text.txt");\n'
        '    std::fs::copy("text.txt", std::env::var("OUT_DIR").unwrap() + "/made.txt").unwrap();\n}\n',
    )
    artifact = crate.build()
    assert crate.ask(artifact, "/")[0].body == b"made of a text"
    inside = {path.relative_to(crate.workdir).parts[0] for path in artifact.inputs}
    assert inside == {"Cargo.toml", "Cargo.lock", "build.rs", "src", "svc-guest", "text.txt"}


def test_compile_error_has_its_position_in_the_project(crate: Crate) -> None:
    workspace(crate, "api")
    crate.program(handler('let n: u32 = "x";\nOk(Response::text(missing))'))
    error = failure(crate)
    assert error.message == "resource api does not compile: 2 errors"
    places = {(found.file, found.line, found.column) for found in error.diagnostics}
    assert places == {("api/src/lib.rs", 3, 14), ("api/src/lib.rs", 4, 19)}
    mismatched = next(found for found in error.diagnostics if found.line == 3)
    assert mismatched.message == "mismatched types [E0308]"
    assert "\x1b[" in mismatched.frame and "-->" not in mismatched.frame
    assert "error" in error.output and "mismatched types" in error.output


def test_compile_error_is_colored_for_terminals_only(
    crate: Crate, capsys: pytest.CaptureFixture[str]
) -> None:
    crate.program(handler('let n: u32 = "x";\nOk(Response::text("x"))'))
    error = failure(crate)
    result = {}
    for mode in ("always", "never"):
        stderr.set_color(mode)  # type: ignore[arg-type]
        try:
            stderr.render(error)
        finally:
            stderr.set_color("auto")
        result[mode] = capsys.readouterr().err
    assert "\x1b" not in result["never"]
    assert "api/src/lib.rs:3:14  mismatched types [E0308]" in result["never"]
    assert 'let n: u32 = "x";' in result["never"]
    frame = result["always"].partition("[E0308]")[2]
    assert "\x1b[1;91m^^^" in frame


def test_error_in_a_macro_of_another_crate_has_the_position_of_its_call(crate: Crate) -> None:
    crate.program(handler('let text = std::format!("{}");\nOk(Response::text(text))'))
    (found,) = failure(crate).diagnostics
    assert (found.file, found.line) == ("api/src/lib.rs", 3)


def test_warnings_are_reported_and_the_build_succeeds(crate: Crate) -> None:
    unused = "".join(f"fn unused_{n}() {{}}\n" for n in range(12))
    crate.program(HELLO + unused)
    assert crate.ask(crate.build(), "/")[0].body == b"hello\n"
    assert crate.reported[0] == "api: api/src/lib.rs:6:4: warning: function `unused_0` is never used"
    assert len(crate.reported) == 11 and crate.reported[-1] == "api: and 2 more warnings"


def test_crate_without_a_handler_is_rejected(crate: Crate) -> None:
    crate.program(
        "pub fn nothing() {}\n", MANIFEST.replace("[lib]", "[lib]\n# cdylib").replace('"cdylib"', '"lib"')
    )
    error = failure(crate)
    assert "not built as a runnable component" in error.message and 'crate-type = ["cdylib"]' in error.hint
    crate.write("Cargo.toml", MANIFEST)
    error = failure(crate)
    assert "api.wasm answers no requests" in error.message and "handler!(handle)" in error.hint


def test_crate_with_two_handlers_is_rejected_by_their_names(crate: Crate) -> None:
    crate.program("")
    shutil.rmtree(crate.workdir / "src")
    crate.write("Cargo.toml", MANIFEST.replace('[lib]\ncrate-type = ["cdylib"]\n', ""))
    for name in ("one", "two"):
        crate.write(f"src/bin/{name}.rs", HELLO + "fn main() {}\n")
    error = failure(crate)
    assert "one.wasm (package api), two.wasm (package api)" in error.message
    crate.write("src/bin/two.rs", "fn main() {}\n")
    assert crate.ask(crate.build(), "/")[0].body == b"hello\n"


def test_missing_or_broken_manifest_is_reported(crate: Crate) -> None:
    crate.workdir.mkdir(parents=True, exist_ok=True)
    error = failure(crate)
    assert "there is no Cargo.toml in api" in error.message and "--template rust" in error.hint
    crate.program(HELLO, MANIFEST + "nonsense\n")
    error = failure(crate)
    assert "cargo failed" in error.message and "Cargo.toml" in error.output


def test_dependency_missing_offline_is_reported(crate: Crate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARGO_HOME", str(crate.root / "cargo"))
    crate.program(HELLO, MANIFEST + 'serde = "1"\n')
    error = failure(crate)
    assert "serde" in error.output and "cargo fetch" in error.hint


def test_unreachable_git_dependency_is_reported(crate: Crate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CARGO_NET_OFFLINE")
    monkeypatch.setenv("CARGO_NET_RETRY", "1")
    monkeypatch.setenv("CARGO_HOME", str(crate.root / "cargo"))
    crate.program(HELLO, MANIFEST + 'other = { git = "http://127.0.0.1:9/other.git" }\n')
    error = failure(crate)
    assert "failed to get `other`" in error.message
    assert "Connection refused" in error.output and "cargo fetch" in error.hint
    assert any("spurious network error" in line for line in crate.reported)


def test_unwritable_target_folder_is_reported(lone_crate: Crate) -> None:
    lone_crate.program(HELLO)
    lone_crate.write("target", "a file is in the way")
    error = failure(lone_crate)
    assert "CARGO_TARGET_DIR" in error.hint


BUILD_SCRIPT = """\
fn main() {
    let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    std::fs::write("started", format!("{} {}", std::process::id(), sleeper.id())).unwrap();
    sleeper.wait().unwrap();
}
"""


def processes(crate: Crate) -> list[int]:
    """Wait for the build script to run; return it and its child."""
    started = crate.workdir / "started"
    until(lambda: started.exists() and len(started.read_text().split()) == 2)
    return [int(pid) for pid in started.read_text().split()]


def test_canceled_build_leaves_no_process_and_the_next_build_works(crate: Crate) -> None:
    crate.program(HELLO)
    crate.write("build.rs", BUILD_SCRIPT)

    async def main() -> list[int]:
        job = asyncio.create_task(RustLane().build(crate.request()))
        pids = await asyncio.to_thread(processes, crate)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        return pids

    pids = asyncio.run(main())
    assert len(pids) == 2 and all(dies(pid) for pid in pids)
    (crate.workdir / "build.rs").unlink()
    assert crate.ask(crate.build(), "/")[0].body == b"hello\n"


def test_build_that_exceeds_its_time_limit_is_stopped(crate: Crate) -> None:
    crate.program(HELLO)
    crate.write("build.rs", BUILD_SCRIPT)
    error = failure(crate, limit_secs=6)
    assert "0.1 minutes" in error.message
    assert all(dies(pid) for pid in processes(crate))


def test_build_with_much_output_retains_only_its_end(crate: Crate) -> None:
    crate.program(HELLO)
    crate.write("build.rs", 'fn main() { for n in 0..1_000 { eprintln!("{n:0>500}"); } panic!("enough") }\n')
    error = failure(crate)
    assert len(error.output) <= 64 * 1024
    assert "enough" in error.output


@pytest.mark.parametrize("name", ["one", "two"])
def test_cargo_runs_in_the_folder_of_the_crate(
    crate: Crate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """rustup reads `rust-toolchain.toml` from the folder in which cargo starts."""
    folder = tmp_path / name
    folder.mkdir()
    where = tmp_path / "where"
    (folder / "cargo").write_text(f'#!/bin/sh\npwd > "{where}"\nexit 1\n')
    (folder / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    crate.program(HELLO)
    failure(crate)
    assert where.read_text() == f"{crate.workdir}\n"


@pytest.fixture
def vendored(crate: Crate, prefix: Path) -> str:
    """Return the line for the crate `wasi`, which is among the sources of the test toolchain only."""
    if not (prefix / "vendor").is_dir():
        pytest.skip("this toolchain has no vendored crates")
    crate.write(
        ".cargo/config.toml",
        '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\n'
        f'directory = "{prefix / "vendor"}"\n',
    )
    return 'wasi = { version = "=0.14.4", default-features = false, features = ["std"] }\n'


def test_program_of_another_binding_answers_or_reports_why_not(crate: Crate, vendored: str) -> None:
    crate.write("Cargo.toml", MANIFEST.replace('svc-guest = { path = "svc-guest" }\n', vendored))
    crate.write("src/lib.rs", Path(__file__).with_name("raw.rs").read_text(encoding="utf-8"))
    details = {
        "/": "",
        "/nothing": "the guest returned no response",
        "/error": "the guest answered with the error internal-error: no luck",
        "/unfinished": "the guest left its response body unfinished",
        "/trap": "the guest gave up (unreachable: a panic or an abort) in api::deep::fall",
        "/recursion": "the guest's call stack is exhausted (endless recursion?) in api::deep::er",
        "/poll": "the guest broke a rule of its host: poll of an empty list, a wait without an end",
        "/abort": "the guest aborted the response",
    }
    answers = dict(zip(details, crate.ask(crate.build(), *details), strict=True))
    assert {path: answer.report.detail for path, answer in answers.items()} == details
    assert (answers["/"].status, answers["/"].body) == (200, b"wasi")
    assert answers["/abort"].report.outcome == "aborted"


def test_guest_library_works_beside_another_binding(crate: Crate, vendored: str) -> None:
    crate.program(
        handler("Ok(Response::text((wasi::clocks::monotonic_clock::now() > 0).to_string()))"),
        MANIFEST + vendored,
    )
    assert crate.ask(crate.build(), "/")[0].body == b"true"


def test_build_command_of_the_resource_is_used(crate: Crate) -> None:
    crate.program(HELLO)
    artifact = crate.build()
    resource = Resource(
        "api",
        "rust",
        crate.workdir,
        build=f"cp '{artifact.component}' own.wasm",
        output=crate.workdir / "own.wasm",
    )
    prebuilt = asyncio.run(RustLane().build(replace(crate.request(), resource=resource)))
    assert prebuilt.digest == artifact.digest
