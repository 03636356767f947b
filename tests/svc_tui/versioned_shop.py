"""A project with a page, a component, a secret and migrations, whose every part names its version."""

from pathlib import Path

import httpx

from svc_tui.client import Client
from tests.engine.wasm import text_guest
from tests.svc_tui.hosted import Hosted

MANIFEST = """[project]
name = "shop"

[resource.web]
lane = "static"
public = true
output = "site"
mounts = { "/h" = "api" }

[resource.api]
lane = "rust"
build = "true"
output = "app.wasm"
secrets = ["KEY"]
"""
_TEXT = b"hello\n"


def write(root: Path, version: int, *, migrations: int = 1) -> Path:
    """Write a version of the project; return its folder."""
    for folder in ("site", "tables"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "svc.toml").write_text(MANIFEST)
    text = f"{version:05}\n".encode()
    assert text_guest.component().count(_TEXT) == 1
    (root / "app.wasm").write_bytes(text_guest.component().replace(_TEXT, text))
    for name in ("index.html", "same.txt"):
        (root / "site" / name).write_text(str(version))
    for number in range(1, 1 + migrations):
        (root / "tables" / f"{number}.sql").write_text(f"create table t{number} (a integer primary key);")
    return root


def live_version(hosted: Hosted) -> int:
    """Return the version that is live. Raises AssertionError for a mixture of two."""
    versions = {int(text(hosted.get(path))) for path in ("/", "/same.txt", "/h")}
    assert len(versions) == 1, f"a mixture of versions: {versions}"
    return versions.pop()


def text(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.text


def migrations(client: Client) -> int:
    """Return how many migrations were applied."""
    return len(client.call("GET", "/v1/projects/shop/migrations")["applied"])
