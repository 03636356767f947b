from pathlib import Path

import httpx
import pytest

from svc_tui.main import run
from tests.support.dev_server import dev_server

pytestmark = pytest.mark.slow


def test_static_template_serves_its_page(tmp_path: Path, home: Path) -> None:
    project = tmp_path / "süß und weit" / "my-page"
    assert run(["new", str(project), "--template", "static"]) == 0
    with dev_server(project, home) as server:
        assert "<h1>my-page</h1>" in server.get("/").text
        for asset in ("/style.css", "/icon.svg"):
            assert server.get(asset).status_code == 200
        assert not any("warning" in line for line in server.lines)


def test_js_template_serves_text_json_and_events(tmp_path: Path, home: Path) -> None:
    project = tmp_path / "süß und weit" / "my-app"
    assert run(["new", str(project), "--template", "js"]) == 0
    with dev_server(project, home) as server:
        assert server.get("/").text.startswith("Hello from my-app.")
        assert server.get("/json?name=you").json()["hello"] == "you"
        assert server.get("/nothing").status_code == 404
        with httpx.stream("GET", f"{server.url}/events", timeout=60) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            events = (line for line in stream.iter_lines() if line)
            assert [next(events), next(events)] == ['data: {"n":5}', 'data: {"n":4}']


def test_go_template_serves_page_json_and_events(tmp_path: Path, home: Path) -> None:
    project = tmp_path / "süß und weit" / "my-app"
    assert run(["new", str(project), "--template", "go"]) == 0
    with dev_server(project, home) as server:
        page = server.get("/")
        assert "<h1>my-app</h1>" in page.text and page.headers["content-type"].startswith("text/html")
        assert server.get("/hello?name=J%C3%BCrgen").json()["hello"] == "Jürgen"
        server.wait_for("INFO +greeted name=Jürgen")
        assert server.get("/nothing").status_code == 404
        with httpx.stream("GET", f"{server.url}/primes", timeout=60) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            lines = [line for line in stream.iter_lines() if line]
        primes = [int(line[6:]) for line in lines if line.startswith("data: ") and line[6:]]
        assert primes[:5] == [2, 3, 5, 7, 11] and primes[-1] == 523 and len(primes) == 99
        assert "event: done" in lines
        assert not any("warning" in line for line in server.lines)
        assert sum("web ready" in line or "web rebuilt" in line for line in server.lines) == 1
    assert (project / "go.work").is_file()
