"""A static resource with a fallback whose entry the build command writes, in `svc dev` and in a service."""

from pathlib import Path

import httpx
import pytest

from tests.support.dev_server import dev_server
from tests.support.service import Server, environ_of, login, run

pytestmark = pytest.mark.slow

MANIFEST = '''[project]
name = "shop"

[resource.web]
lane = "static"
public = true
workdir = "web"
build = """mkdir -p build/client build/server
cp page.html build/client/index.html
cp app.js build/server/index.js"""
output = "build/client"
fallback = "web-server"

[resource.web-server]
lane = "js"
workdir = "web"
entry = "build/server/index.js"
'''
BUILDER = "sh builder.sh"
BUILD_LOOP = """while read _; do
  rm -rf build/server
  if sh -n src/page.sh; then
    sh src/page.sh > build/client/index.html; mkdir build/server; cp app.js build/server/index.js
    echo; echo "svc: built"
  else echo; echo "svc: failed"; fi
done
"""
APP = """export default {
  async fetch(request) {
    return new Response(`VERSION ${request.method} ${new URL(request.url).pathname} ${await request.text()}`);
  },
};
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    web = tmp_path / "shop" / "web"
    web.mkdir(parents=True)
    (web.parent / "svc.toml").write_text(MANIFEST)
    (web / ".gitignore").write_text("build/\n")
    (web / "page.html").write_text("a file")
    (web / "app.js").write_text(APP.replace("VERSION", "one"))
    return web.parent


def test_save_builds_files_and_then_the_fallback(project: Path, home: Path) -> None:
    with dev_server(project, home) as dev:
        assert dev.get("/").text == "a file"
        assert dev.request("POST", "/cart", content="tea").text == "one POST /cart tea"
        (project / "web" / "app.js").write_text(APP.replace("VERSION", "two"))
        dev.until("/x", lambda answer: answer.text == "two GET /x ")


def test_save_is_built_by_the_builder_and_its_error_is_shown(project: Path, home: Path) -> None:
    (project / "svc.toml").write_text(MANIFEST.replace('output = "b', f'builder = "{BUILDER}"\noutput = "b'))
    (project / "web" / "builder.sh").write_text(BUILD_LOOP)
    (project / "web" / "src").mkdir()
    page = project / "web" / "src" / "page.sh"
    page.write_text("echo one $PPID")
    with dev_server(project, home) as dev:
        assert dev.get("/").text == "a file"
        page.write_text("echo two $PPID")
        two = dev.until("/", lambda answer: answer.text.startswith("two")).text.split()
        page.write_text("echo 'three")
        dev.wait_for("the builder of resource web failed: sh builder.sh")
        dev.wait_for("src/page.sh: 1: .*[Uu]nterminated quoted string")
        assert dev.get("/").text.split() == two
        page.write_text("echo four $PPID")
        four = dev.until("/", lambda answer: answer.text.startswith("four")).text.split()
        assert two[1] == four[1], "the program was started again"
        assert dev.get("/cart").text.startswith("one GET /cart")
        assert not any("web-server" in line and "does not exist" in line for line in dev.lines)


def test_fallback_travels_with_its_deployment(project: Path, home: Path, tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home", home / "cache")
    server = Server(tmp_path / "data", environ, "--workers", "2", cache=home / "cache")
    try:
        login(server, project, environ)
        deployed = run(project, environ, "deploy")
        assert deployed.returncode == 0, deployed.stderr
        assert "web as fallback" in deployed.stdout + deployed.stderr
        (project / "web" / "app.js").write_text(APP.replace("VERSION", "two"))
        assert run(project, environ, "build").returncode == 0
        (project / "web" / "app.js").write_text(APP.replace("VERSION", "one"))
        planned = run(project, environ, "deploy", "--plan")
        assert "artifact" not in planned.stdout, planned.stdout
        assert server.get().text == "a file"
        host = {"host": "web--shop.localhost"}
        answer = httpx.put(f"http://127.0.0.1:{server.port}/a/b", content=b"x", headers=host, timeout=60)
        assert answer.text == "one PUT /a/b x"
    finally:
        server.stop()
