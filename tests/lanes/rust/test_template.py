"""The template under `svc dev`, and the duration of a rebuild."""

import re
import subprocess
from pathlib import Path

import httpx
import pytest

from engine.wasm.binary.reader import read_memories, read_outline
from svc_tui.main import run
from tests.support.dev_server import DevServer, dev_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "cache").symlink_to(cache, target_is_directory=True)
    return home


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the template; each test restores its sources."""
    project = tmp_path_factory.mktemp("süß und weit") / "my-app"
    assert run(["new", str(project), "--template", "rust"]) == 0
    return project


def save(project: Path, old: str, new: str) -> None:
    path = project / "src" / "lib.rs"
    path.write_text(path.read_text().replace(old, new))


def builds(server: DevServer) -> int:
    return sum("web rebuilt in" in line or "web ready in" in line for line in server.lines)


def test_template_serves_page_json_and_events(project: Path, home: Path) -> None:
    with dev_server(project, home) as server:
        page = server.get("/")
        assert "<h1>my-app</h1>" in page.text and page.headers["content-type"].startswith("text/html")
        assert server.get("/hello?name=J%C3%BCrgen").json()["hello"] == "Jürgen"
        assert server.get("/nothing").status_code == 404
        with httpx.stream("GET", f"{server.url}/breaths", timeout=60) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            lines = (line for line in stream.iter_lines() if line)
            assert [next(lines), next(lines)] == [
                'data: {"n":1,"breathe":"in"}',
                'data: {"n":1,"breathe":"out"}',
            ]
        assert not any("warning" in line for line in server.lines)
        assert builds(server) == 1, "the first build wrote something that started another"
        server.wait_for("greeted.*name=Jürgen")


def test_save_is_served_and_a_compile_error_serves_the_last_version(project: Path, home: Path) -> None:
    with dev_server(project, home) as server:
        assert server.get("/hello").json()["hello"] == "world"
        for word in ("moon", "sun"):
            start = len(server.lines)
            save(
                project,
                '"world".to_owned()' if word == "moon" else '"moon".to_owned()',
                f'"{word}".to_owned()',
            )
            server.wait_for("web rebuilt in", after=start)
            assert server.get("/hello").json()["hello"] == word
        save(project, '"sun".to_owned()', '"sun"')
        place = server.wait_for(r"src/lib\.rs:\d+:\d+  mismatched types \[E0308\]")
        line = int(re.search(r":(\d+):", place)[1])  # type: ignore[index]
        assert '"sun"' in (project / "src" / "lib.rs").read_text().split("\n")[line - 1]
        server.wait_for("still serving the last successful build")
        assert server.get("/hello").json()["hello"] == "sun"
        start = len(server.lines)
        save(project, '"sun"', '"world".to_owned()')
        server.wait_for("web builds again, in", after=start)
        assert server.get("/hello").json()["hello"] == "world"


@pytest.mark.nightly
def test_template_is_built_by_cargo_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CARGO_PROFILE_RELEASE_OPT_LEVEL")
    lock = (project / "Cargo.lock").read_text()
    for arguments in (["build", "--locked", "--release", "--target", "wasm32-wasip2"], ["check", "--locked"]):
        subprocess.run(["cargo", *arguments], cwd=project, check=True, capture_output=True)
    assert (project / "Cargo.lock").read_text() == lock
    assert (project / "target/wasm32-wasip2/release/web.wasm").stat().st_size < 160_000


DEEP = """
fn deep(n: u32) -> u32 {
    let block = std::hint::black_box([n; 256]);
    if n == 0 { 0 } else { deep(n - 1) + block[0] % 2 }
}

/// A stream of events"""
DEEP_HANDLER = """
fn deep_from(path: &str) -> Response {
    Response::text(deep(path[1..].parse().unwrap_or(0)).to_string())
}
"""


def test_small_stack_makes_a_small_memory_and_its_overflow_is_reported(project: Path, home: Path) -> None:
    source = project / "src" / "lib.rs"
    before = source.read_text()
    save(project, "\n/// A stream of events", DEEP)
    save(project, '("GET", "/hello") => hello(&request),', '("GET", path) => deep_from(path),')
    source.write_text(source.read_text() + DEEP_HANDLER)
    try:
        with dev_server(project, home) as server:
            assert server.get("/50").text == "25"
            answer = server.get("/1000", headers={"accept": "application/json"})
            assert answer.json()["detail"] == "the guest accessed memory out of bounds (stack overflow?)"
    finally:
        source.write_text(before)
    component = next((project / "target" / "wasm32-wasip2").glob("*/web.wasm")).read_bytes()
    modules = read_outline(component).modules()
    memories = [each for module in modules for each in read_memories(component[module.start : module.end])]
    assert 128 << 10 < sum(memory.minimum for memory in memories) < 320 << 10
