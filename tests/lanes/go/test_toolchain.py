"""Which Go is used: PATH's when it is new enough, else a managed one; what is said when there is none."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from engine.lane import BuildFailed, ToolchainMissing
from lanes.go.lane import GoLane
from lanes.go.pin import GO
from lanes.go.toolchain import Go, find
from tests.lanes.go.conftest import GUEST, LITE, Module


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
def test_one_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", f"echo go version {version} linux/amd64"))
    go = found(tmp_path)
    assert isinstance(go, Go) and not go.managed
    assert go.version == version.removeprefix("go").split()[0]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo go version go1.20 linux/amd64", "is 1.20, older than 1.24"),
        ("echo broken >&2; exit 3", "cannot be run: broken"),
        ("exit 3", "cannot be run: exit status 3"),
        ("echo go version devel +1234", "cannot be run: go version devel"),
    ],
)
def test_one_that_is_no_use_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", script))
    assert said in str(found(tmp_path))
    (tool,) = asyncio.run(GoLane().tools(tmp_path))
    assert said in tool.problem and tool.remedy == "svc doctor --fix"


def test_none_on_path_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(tmp_path) == "go is not on PATH"


@pytest.mark.slow
def test_none_at_all_and_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(tmp_path / "project", tmp_path / "cache ü")
    module.program(LITE)
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", "echo go version go1.20 linux/amd64"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ToolchainMissing) as caught:
        module.build()
    assert "cannot be reached" in caught.value.message and "put `go` on PATH" in caught.value.hint
    with pytest.raises(ToolchainMissing):
        asyncio.run(GoLane().install(module.cache, lambda line: None))


def test_the_identity_changes_with_what_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity() -> str:
        return GoLane().identity(tmp_path)

    monkeypatch.setenv("PATH", str(tmp_path))
    seen = [identity()]
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", "exit 1"))
    seen.append(identity())
    monkeypatch.setenv("GOEXPERIMENT", "greenteagc")
    seen.append(identity())
    GO.executable(tmp_path).parent.mkdir(parents=True)
    GO.executable(tmp_path).write_text("")
    seen.append(identity())
    assert len(set(seen)) == 4
    assert identity() == seen[-1]


@pytest.mark.slow
def test_a_managed_one_is_used_where_the_one_on_path_is_old(
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
def test_an_installed_one_has_compiled_what_every_program_needs(go: Go, cache: Path) -> None:
    told: list[str] = []
    asyncio.run(GoLane().install(cache, told.append))
    assert told == ["compiling Go's packages for components, once …"]


@pytest.mark.slow
def test_a_go_whose_library_is_not_known_still_builds(
    go: Go, module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """http.DefaultTransport goes through the host all the same, by the library alone."""
    root = tmp_path / "root"
    (root / "src" / "net" / "http").mkdir(parents=True)
    (root / "src" / "net" / "http" / "roundtrip.go").write_text("package http\n")
    script = f'[ "$*" = "env -json GOMOD GOWORK GOROOT GOMODCACHE" ] || exec "{go.program}" "$@"\n'
    script += f'"{go.program}" "$@" | sed \'s|"GOROOT": .*|"GOROOT": "{root}",|\''
    monkeypatch.setenv("PATH", fake(tmp_path / "bin", script))
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    module.program(
        'package main\n\nimport (\n\t"fmt"\n\t"net/http"\n\n\t"svc/guest"\n)\n\nfunc main() {\n'
        '\thttp.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {\n'
        '\t\t_, err := http.Get("http://127.0.0.1:1/")\n\t\tfmt.Fprint(w, err)\n\t})\n\tguest.Serve(nil)\n}\n'
    )
    assert "HTTP-request-denied" in module.ask(module.build(), "/")[0].text


@pytest.mark.slow
@pytest.mark.parametrize("system", ["", "wasip1"])
def test_the_library_itself(go: Go, system: str) -> None:
    environ = {**os.environ, "GOWORK": "off"}
    if system:
        environ |= {"GOOS": "wasip1", "GOARCH": "wasm"}
    # The library makes pointers of numbers that the host gives: they never lie in Go's heap.
    done = subprocess.run(
        [go.program, "vet", "-unsafeptr=false", "./..."],
        cwd=GUEST,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_librarys_own_tests_and_form(go: Go) -> None:
    environ = {**os.environ, "GOWORK": "off"}
    done = subprocess.run(
        [go.program, "test", "./..."], cwd=GUEST, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    gofmt = Path(go.program).resolve().with_name("gofmt")
    folders = [GUEST, Path(__file__).parent]
    formed = subprocess.run([gofmt, "-l", *folders], capture_output=True, text=True, check=True)
    assert formed.stdout == ""


def test_nothing_but_sources_is_handed_out() -> None:
    suffixes = {path.suffix for path in GUEST.rglob("*") if path.is_file()}
    assert suffixes == {".go", ".mod", ".s"}


@pytest.mark.slow
def test_an_error_of_go_that_nothing_is_known_of(
    go: Go, module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.program(LITE)
    endings = {
        "echo out of luck >&2; exit 1": ("does not build", "out of luck"),
        "kill -9 $$": ("ended by signal 9", "out of memory"),
        "echo no space left on device >&2; exit 1": ("disk is full", "GOCACHE"),
    }
    for n, (script, (said, hint)) in enumerate(endings.items()):
        with monkeypatch.context() as patch:
            lines = f'case "$1" in build) {script} ;; *) exec "{go.program}" "$@" ;; esac'
            patch.setenv("PATH", fake(tmp_path / f"bin{n}", lines))
            with pytest.raises(BuildFailed) as caught:
                module.build()
            assert said in caught.value.message and hint in caught.value.hint
