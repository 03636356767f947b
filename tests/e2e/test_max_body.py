"""`--max-body`: the request body limit, in every worker, with and without content-length."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.engine.wasm.text_guest import component
from tests.support.dev_server import dev_server
from tests.support.service import Server, environ_of, login, prepare

pytestmark = pytest.mark.slow
MIB = 1 << 20


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size // 4096):
        yield bytes(4096)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    resource = 'lane = "rust"\npublic = true\nbuild = "true"\noutput = "guest.wasm"\n'
    (root / "svc.toml").write_text(f'[project]\nname = "shop"\n\n[resource.api]\n{resource}')
    (root / "guest.wasm").write_bytes(component())
    return root


def check(port: int) -> None:
    """Send a MiB and a larger body, with and without content-length."""
    for size, status in ((MIB, 200), (MIB + 4096, 413)):
        for content in (bytes(size), pieces(size)):
            at = {"host": f"api--shop.localhost:{port}"}
            answer = httpx.post(f"http://127.0.0.1:{port}/u65536", content=content, headers=at, timeout=60)
            assert answer.status_code == status
            assert status == 200 or answer.json()["code"] == "body-too-large"


def test_dev_rejects_larger_bodies(shop: Path, home: Path) -> None:
    with dev_server(shop, home, "--workers", "2", "--max-body", "1") as server:
        server.until("/h", lambda answer: answer.status_code == 200)
        check(server.port)


def test_service_rejects_larger_bodies(shop: Path, tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ, "--max-body", "1")
    try:
        login(server, shop, environ)
        prepare(shop, environ, "deploy")
        check(server.port)
        server.stop()
        server = server.restarted(environ, "--workers", "2", "--max-body", "1")
        check(server.port)
    finally:
        server.stop()
