"""The go lane: components, inputs, errors with their positions, and cleanup."""

import asyncio
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from engine.lane import BuildFailed, ToolchainMissing
from engine.manifest.model import Resource
from lanes.go.lane import GoLane
from lanes.go.toolchain import Go
from lanes.go.workspace import LIBRARY
from tests.lanes.go.module import HELLO, LITE, MANIFEST, Module
from tests.lanes.test_command import dies
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def failure(module: Module, **options: float) -> BuildFailed:
    with pytest.raises(BuildFailed) as exc_info:
        module.build(**options)
    return exc_info.value


@pytest.mark.parametrize("source", [HELLO, LITE], ids=["net/http", "lite"])
def test_hello_program_answers(module: Module, source: str) -> None:
    module.program(source)
    artifact = module.build("deploy")
    (answer,) = module.ask(artifact, "/", memory_limit_mb=32)
    assert (answer.status, answer.body, answer.report.outcome) == (200, b"hello\n", "ok")
    assert artifact.digest == artifact.component.stem
    assert artifact.inputs == {module.workdir / name for name in ("go.mod", "main.go")}
    assert sorted(path.name for path in module.workdir.iterdir()) == ["go.mod", "go.work", "main.go"]


def test_later_build_does_not_change_an_earlier_artifact(module: Module) -> None:
    module.program(LITE)
    first = module.build()
    assert module.build() == first
    module.write("main.go", LITE.replace("hello", "again"))
    second = module.build()
    assert [module.ask(artifact, "/")[0].body for artifact in (first, second)] == [b"hello\n", b"again\n"]


def test_equal_projects_in_different_folders_build_equal_components(module: Module, tmp_path: Path) -> None:
    elsewhere = Module(tmp_path / "else where", module.cache)
    for each in (module, elsewhere):
        each.program(LITE)
    assert module.build().digest == elsewhere.build().digest


def test_compile_error_has_its_position_in_the_project(module: Module) -> None:
    module.program(LITE.replace("w.Write", "größe := 1; w.Wite"))
    module.write("other.go", 'package main\n\nvar n int = "text"\n')
    error = failure(module)
    assert error.message == "resource api does not compile: 3 errors"
    places = {(found.file, found.line, found.column) for found in error.diagnostics}
    assert ("api/other.go", 3, 13) in places
    unknown = next(found for found in error.diagnostics if "w.Wite undefined" in found.message)
    assert (unknown.file, unknown.line) == ("api/main.go", 6)
    _, _, source, mark, _ = unknown.frame.splitlines()
    assert source[mark.index("^") :].startswith("Wite(")
    assert "w.Wite undefined" in error.output


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ('package dep\n\n// int f();\nimport "C"\n', "needs cgo, and a component has no C code"),
        ("//go:build windows\n\npackage dep\n", "has no files for GOOS=wasip1 and GOARCH=wasm"),
    ],
)
def test_package_without_files_for_components_is_named(module: Module, source: str, reason: str) -> None:
    module.program(LITE.replace("package main\n", 'package main\n\nimport _ "example.com/api/dep"\n'))
    module.write("dep/dep.go", source)
    error = failure(module)
    assert error.message == f"resource api: the package example.com/api/dep {reason}"
    assert "imports example.com/api/dep: build constraints exclude" in error.output


def test_syntax_error_has_its_position(module: Module) -> None:
    module.program(LITE.replace("func main() {", "func main( {"))
    (found, *_) = failure(module).diagnostics
    assert (found.file, found.line) == ("api/main.go", 5)


def test_error_in_another_package_has_its_position(module: Module) -> None:
    module.program(LITE.replace("import ", 'import _ "example.com/api/inner/store"\nimport '))
    module.write("inner/store/store.go", "package store\n\nfunc Open() int {}\n")
    (found,) = failure(module).diagnostics
    assert (found.file, found.line, found.message) == ("api/inner/store/store.go", 3, "missing return")


def test_module_missing_offline_is_reported(module: Module) -> None:
    module.program(
        LITE.replace('import "svc', 'import _ "example.com/far"\nimport "svc'),
        MANIFEST + "\nrequire example.com/far v1.2.3\n",
    )
    error = failure(module)
    assert "has to be downloaded" in error.message and "go mod download" in error.hint


def test_unknown_package_is_reported(module: Module) -> None:
    module.program(LITE.replace('import "svc', 'import _ "example.com/far"\nimport "svc'))
    error = failure(module)
    assert "example.com/far" in error.output
    assert "go get example.com/far" in error.hint and error.hint.endswith("in api.")


def test_missing_or_broken_go_mod_is_reported(module: Module) -> None:
    module.write("main.go", LITE)
    error = failure(module)
    assert "there is no go.mod in api" in error.message and "go mod init api" in error.hint
    module.write("go.mod", "modul example.com/api\n")
    assert "go.mod" in failure(module).message


def test_module_without_a_main_package_is_rejected(module: Module) -> None:
    module.program("package api\n")
    error = failure(module)
    assert "api has no main package" in error.message and "workdir" in error.hint
    (module.workdir / "main.go").unlink()
    assert "no Go files" in failure(module).output


def test_program_without_the_guest_library_is_rejected(module: Module) -> None:
    module.program("package main\n\nfunc main() {}\n")
    error = failure(module)
    assert "answers no requests" in error.message and 'Import "svc/guest"' in error.hint


def test_program_that_never_serves_reports_why(module: Module) -> None:
    module.program('package main\n\nimport _ "svc/guest"\n\nfunc main() {}\n')
    (answer,) = module.ask(module.build(), "/")
    assert "main returned without a call of guest.Serve" in answer.report.detail


def test_unavailable_import_is_reported(module: Module) -> None:
    module.program(LITE + "\n//go:wasmimport elsewhere thing\nfunc thing()\n\nfunc init() { thing() }\n")
    error = failure(module)
    assert "elsewhere thing" in error.message and "go:wasmimport" in error.hint


def sibling(module: Module, name: str = "shared") -> Path:
    """Make a module beside the resource's; return its folder."""
    folder = module.root / name
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(f"module example.com/{name}\n\ngo 1.24\n")
    (folder / "text.txt").write_text("shared\n")
    (folder / "shared.go").write_text(
        'package shared\n\nimport _ "embed"\n\n//go:embed text.txt\nvar Text string\n'
    )
    return folder


USES_SHARED = LITE.replace("import ", 'import "example.com/shared"\nimport ').replace(
    '[]byte("hello\\n")', "[]byte(shared.Text)"
)


def test_first_build_of_a_cache_says_what_takes_long(module: Module, tmp_path: Path) -> None:
    shared, module.cache = module.cache, tmp_path / "cache"
    module.cache.mkdir()
    for path in shared.iterdir():
        if path.name != "go":
            (module.cache / path.name).symlink_to(path)
    module.program(LITE)
    module.build()
    assert module.reported == ["compiling Go's packages for components, once …"]
    module.build()
    assert len(module.reported) == 1


def test_workspace_of_the_user_is_used(module: Module) -> None:
    shared = sibling(module)
    module.program(USES_SHARED)
    own = module.root / "go.work"
    own.write_text("go 1.24\n\nuse (\n\t./api\n\t./shared\n)\n")
    before = own.read_text()
    artifact = module.build()
    assert module.ask(artifact, "/")[0].body == b"shared\n"
    assert own.read_text() == before and not (module.workdir / "go.work").exists()
    used = {shared / name for name in ("go.mod", "shared.go", "text.txt")}
    assert artifact.inputs == used | {module.workdir / name for name in ("go.mod", "main.go")} | {own}


def test_change_in_a_replaced_module_is_built(module: Module) -> None:
    shared = sibling(module)
    module.program(USES_SHARED, MANIFEST + "\nrequire example.com/shared v0.0.0\n")
    module.write(
        "go.mod", (module.workdir / "go.mod").read_text() + "\nreplace example.com/shared => ../shared\n"
    )
    first = module.build()
    assert first.inputs > {shared / name for name in ("go.mod", "shared.go", "text.txt")}
    (shared / "text.txt").write_text("changed\n")
    assert module.ask(module.build(), "/")[0].body == b"changed\n"


def test_replacement_of_the_users_workspace_is_used(module: Module) -> None:
    sibling(module)
    module.program(USES_SHARED, MANIFEST + "\nrequire example.com/shared v1.0.0\n")
    (module.root / "go.work").write_text(
        "go 1.24\n\nuse ./api\n\nreplace example.com/shared v1.0.0 => ./shared\n"
    )
    assert module.ask(module.build(), "/")[0].body == b"shared\n"


def test_program_below_its_go_mod_is_built(module: Module) -> None:
    module.root.mkdir(parents=True)
    (module.root / "go.mod").write_text(MANIFEST)
    module.write("main.go", LITE)
    assert module.ask(module.build(), "/")[0].body == b"hello\n"
    assert (module.root / "go.work").exists()


def test_vendored_package_is_used(module: Module) -> None:
    module.program(USES_SHARED, MANIFEST + "\nrequire example.com/shared v1.0.0\n")
    module.write("vendor/example.com/shared/shared.go", 'package shared\n\nconst Text = "vendored\\n"\n')
    module.write(
        "vendor/modules.txt", "# example.com/shared v1.0.0\n## explicit; go 1.24\nexample.com/shared\n"
    )
    artifact = module.build()
    assert module.ask(artifact, "/")[0].body == b"vendored\n"
    assert module.workdir / "vendor" / "example.com" / "shared" / "shared.go" in artifact.inputs
    assert not (module.workdir / "go.work").exists()
    shutil.rmtree(module.workdir / "vendor")
    assert "has to be downloaded" in failure(module).message


def test_generated_workspace_is_removed_for_a_vendor_folder(module: Module) -> None:
    module.program(LITE)
    module.build()
    assert (module.workdir / "go.work").exists()
    module.write("vendor/modules.txt", "")
    assert module.ask(module.build(), "/")[0].body == b"hello\n"
    assert not (module.workdir / "go.work").exists()


@pytest.mark.parametrize("version", ["1.20", "1.23rc1", "1.24.0"])
def test_module_of_another_go_version_is_built(module: Module, version: str) -> None:
    module.program(LITE, MANIFEST.replace("1.24", version))
    assert module.ask(module.build(), "/")[0].body == b"hello\n"


def test_module_that_needs_a_newer_go_is_reported(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    module.program(LITE, MANIFEST.replace("1.24", "1.99"))
    error = failure(module)
    assert "resource api needs Go 1.99, and 1.2" in error.message and "newer `go`" in error.hint


def test_generated_workspace_is_usable_and_repaired(module: Module, go: Go) -> None:
    module.program(LITE)
    module.build()
    text = (module.workdir / "go.work").read_text()
    assert text.startswith("// Written by svc") and str(LIBRARY) in text
    subprocess.run([go.program, "vet", "."], cwd=module.workdir, check=True)
    module.write("go.work", text.replace(str(LIBRARY), "/elsewhere/guest"))
    module.build()
    assert (module.workdir / "go.work").read_text() == text


def test_unwritable_folder_is_built_without_a_workspace(
    module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root can write to read-only folders, so a folder of that name blocks the file instead."""
    module.program(LITE)
    (module.workdir / "go.work").mkdir()
    monkeypatch.setenv("GOWORK", "off")
    assert module.ask(module.build(), "/")[0].body == b"hello\n"


def test_go_settings_of_the_user_are_ignored(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    module.program(LITE)
    for name, value in {
        "GOFLAGS": "-mod=vendor",
        "GOOS": "plan9",
        "GOARCH": "arm64",
        "GOWORK": "off",
        "CGO_ENABLED": "1",
        "GO111MODULE": "off",
    }.items():
        monkeypatch.setenv(name, value)
    assert module.ask(module.build(), "/")[0].body == b"hello\n"


HANGING = """\
#!/bin/sh
case "$1" in build) ;; *) exec "{go}" "$@" ;; esac
sleep 1000 &
echo $$ $! > '{started}.new'
mv '{started}.new' '{started}'
wait
"""


@pytest.fixture
def started(module: Module, go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Add a Go to PATH whose builds never finish; return the file with its process ids."""
    folder, started = tmp_path / "bin", tmp_path / "started"
    folder.mkdir()
    program = folder / "go"
    program.write_text(HANGING.format(go=go.program, started=started))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    module.program(LITE)
    return started


def processes(started: Path) -> list[int]:
    until(started.exists)
    return [int(pid) for pid in started.read_text().split()]


def test_build_that_exceeds_its_time_limit_is_stopped(module: Module, started: Path) -> None:
    error = failure(module, limit_secs=1)
    assert "did not end within 1 seconds" in error.message
    assert all(dies(pid) for pid in processes(started))


def test_canceled_build_leaves_no_process_and_the_next_build_works(
    module: Module, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> list[int]:
        job = asyncio.create_task(GoLane().build(module.request()))
        pids = await asyncio.to_thread(processes, started)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        return pids

    pids = asyncio.run(main())
    assert len(pids) == 2 and all(dies(pid) for pid in pids)
    (started.parent / "bin" / "go").unlink()
    assert module.ask(module.build(), "/")[0].body == b"hello\n"


def test_concurrent_builds_are_independent(module: Module, tmp_path: Path) -> None:
    other = Module(tmp_path / "other", module.cache)
    module.program(LITE)
    other.program(LITE.replace("hello", "other"))

    async def main() -> list[str]:
        lane = GoLane()
        requests = [module.request(), module.request("deploy"), other.request()]
        return [artifact.digest for artifact in await asyncio.gather(*map(lane.build, requests))]

    one, same, different = asyncio.run(main())
    assert one == same != different


def test_build_command_of_the_resource_is_used(module: Module) -> None:
    module.program(LITE)
    artifact = module.build()
    resource = Resource(
        "api",
        "go",
        module.workdir,
        build=f"cp '{artifact.component}' own.wasm",
        output=module.workdir / "own.wasm",
    )
    prebuilt = asyncio.run(GoLane().build(replace(module.request(), resource=resource)))
    assert prebuilt.digest == artifact.digest


def test_unwritable_cache_is_reported(module: Module, tmp_path: Path, go: Go) -> None:
    cache = tmp_path / "cache"
    unfinished = shutil.ignore_patterns(".installing-*")
    source, copy = module.cache / "toolchains", cache / "toolchains"
    shutil.copytree(source, copy, symlinks=True, ignore=unfinished, copy_function=os.link)
    (cache / "go").write_text("a file is in the way")
    module.program(LITE)
    with pytest.raises(BuildFailed) as caught:
        asyncio.run(GoLane().build(replace(module.request(), cache=cache)))
    assert "could not be built" in caught.value.message and "free disk space" in caught.value.hint
    with pytest.raises(ToolchainMissing) as lines:
        asyncio.run(GoLane().install(cache, lambda line: None))
    assert "cannot prepare its builds" in lines.value.message and "SVC_HOME" in lines.value.hint
