"""A crate on disk that the lane builds and a runner serves, and sources for it."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from engine.artifact import ComponentArtifact
from engine.lane import BuildMode, BuildRequest
from engine.manifest.model import Resource
from lanes.rust.lane import RustLane
from tests.lanes.workdir import Workdir, answers
from tests.support.guest_client import Answer

GUEST = Path(__file__).resolve().parents[3] / "lanes" / "rust" / "guest"
MANIFEST = """\
[package]
name = "api"
version = "0.1.0"
edition = "2021"

[lib]
crate-type = ["cdylib"]

[dependencies]
svc-guest = { path = "svc-guest" }
"""


def handler(body: str) -> str:
    """Return a program whose handler has this body."""
    return (
        "use svc_guest::*;\n"
        f"#[allow(unused)] fn handle(request: Request) -> Result<Response> {{\n{body}\n}}\n"
        "svc_guest::handler!(handle);\n"
    )


HELLO = handler('Ok(Response::text("hello\\n"))')


class Crate(Workdir):
    """A rust resource on disk; `build` makes it, `ask` runs it."""

    def guest(self) -> None:
        """Copy the guest library into the crate, as `svc new` does, unless it exists."""
        if not (self.workdir / "svc-guest").exists():
            shutil.copytree(GUEST, self.workdir / "svc-guest")

    def program(self, source: str, manifest: str = MANIFEST) -> None:
        self.guest()
        self.write("Cargo.toml", manifest)
        self.write("src/lib.rs", source)

    @property
    def resource(self) -> Resource:
        return Resource("api", "rust", self.workdir)

    def request(self, mode: BuildMode = "dev") -> BuildRequest:
        return BuildRequest(self.resource, self.root, self.cache, mode, self.reported.append)

    def build(self, mode: BuildMode = "dev", **options: Any) -> ComponentArtifact:
        return asyncio.run(RustLane(**options).build(self.request(mode)))

    def ask(self, artifact: ComponentArtifact, *targets: str, **fields: Any) -> list[Answer]:
        """Send a request for each target, with `fields` of the Client or of the resource."""
        settings = {name: fields.pop(name) for name in ("egress", "memory_limit_mb") if name in fields}
        method = fields.pop("method", "GET")
        resource = Resource("api", "rust", self.workdir, **settings)
        return answers(self.cache, resource, artifact, *targets, method=method, **fields)
