"""Uploads of `curl` to the program of the documentation, stored in a table."""

import random
import re
import subprocess
from pathlib import Path

import pytest

from tests.lanes import tables
from tests.lanes.js.npm import node_modules
from tests.support.dev_server import dev_server

pytestmark = pytest.mark.slow
MANIFEST = '[project]\nname = "images"\n\n[resource.api]\nlane = "js"\nworkdir = "api"\npublic = true\n'
TYPES = ("gif", "jpeg", "png", "webp")


def curl(*arguments: str | Path) -> bytes:
    command = ["curl", "--silent", "--show-error", "--fail-with-body", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


def test_image_uploaded_with_hono_is_returned_unchanged(tmp_path: Path, home: Path, cache: Path) -> None:
    page = (tables.PAGE.parent / "uploads.md").read_text("utf-8")
    ((schema,), (program,)) = (
        re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) for kind in ("sql", "js hono")
    )
    (tmp_path / "svc.toml").write_text(MANIFEST)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "0001-images.sql").write_text(schema)
    (tmp_path / "api" / "src").mkdir(parents=True)
    (tmp_path / "api" / "src" / "index.js").write_text(program)
    packages = node_modules(cache, "hono@4", "zod@4", "nanoid@5")
    (tmp_path / "api" / "node_modules").symlink_to(packages, target_is_directory=True)
    every_byte = bytes(range(256)) * 512
    contents = [b"", every_byte, b"\r\n--boundary--\r\n" * 99, random.Random(1).randbytes(1_000_000)]
    with dev_server(tmp_path, home) as server:
        url = f"{server.url}/images"
        for number, (kind, content) in enumerate(zip(TYPES, contents, strict=True), 1):
            image = tmp_path / f"image ü.{kind}"
            image.write_bytes(content)
            assert curl("-F", f"file=@{image};type=image/{kind}", url) == b'{"id":%d}' % number
            assert curl(f"{url}/{number}") == content
            assert (
                f"content-type: image/{kind}" in curl("-I", "-X", "GET", f"{url}/{number}").decode().lower()
            )
        other = tmp_path / "page.html"
        other.write_text("<script>alert(1)</script>")
        refused = subprocess.run(["curl", "-s", "-F", f"file=@{other}", url], capture_output=True, timeout=60)
        assert refused.stdout == b"Send an image in the field file"
