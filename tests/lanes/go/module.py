"""A Go module on disk that the lane builds and a runner serves, and sources for it."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.http.exchange import Headers
from engine.lane import BuildMode, BuildRequest
from engine.manifest.model import Resource
from engine.wasm.execution.run_state import GuestRequest, RunReport
from engine.wasm.execution.runner import Guest, Runner
from lanes.go.lane import GoLane
from lanes.go.toolchain import Go
from tests.lanes.workdir import Workdir
from tests.support.guest_client import Answer, Client
from tests.support.toolchains import GO_PROXY

GUEST = Path(__file__).resolve().parents[3] / "lanes" / "go" / "guest"
MANIFEST = "module example.com/api\n\ngo 1.24\n"
HELLO = """\
package main

import (
	"fmt"
	"net/http"

	"svc/guest"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text) })
	guest.Serve(nil)
}

const text = "hello\\n"
"""
LITE = """\
package main

import "svc/guest/lite"

func main() {
	lite.Serve(func(w *lite.Response, r *lite.Request) { w.Write([]byte("hello\\n")) })
}
"""


@dataclass
class Reply(Answer):
    """A response with all header fields in order, and the arrival time of each piece of the body."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        return [value for found, value in self.fields if found == name]

    @property
    def text(self) -> str:
        return self.body.decode()


class _Wire:
    """A proxy between a client and a guest that adds request fields and records the response."""

    def __init__(self, guest: Guest, fields: Sequence[tuple[str, str]]) -> None:
        self._guest = guest
        self._added = [(name.encode(), value.encode()) for name, value in fields]
        self.fields: list[tuple[str, str]] = []
        self.times: list[float] = []

    async def run(self, request: GuestRequest) -> RunReport:
        if any(name == b"content-length" for name, _ in self._added):
            request.headers = [item for item in request.headers if item[0] != b"transfer-encoding"]
        request.headers = [*request.headers, *self._added]
        exchange: Any = request.exchange
        send_head, send_body = exchange.send_head, exchange.send_body

        async def seen_head(status: int, headers: Headers) -> None:
            self.fields = [(name.decode(), value.decode()) for name, value in headers]
            await send_head(status, headers)

        async def seen_body(data: bytes, *, end: bool) -> None:
            if data:
                self.times.append(time.monotonic())
            await send_body(data, end=end)

        exchange.send_head, exchange.send_body = seen_head, seen_body
        return await self._guest.run(request)


class Module(Workdir):
    """A go resource on disk; `build` makes it, `ask` runs it."""

    def program(self, source: str, manifest: str = MANIFEST) -> None:
        self.write("go.mod", manifest)
        self.write("main.go", source)

    def copy_with_modules(self, sources: Path, go: Go) -> None:
        """Copy a program and download its modules; skip the test where the module proxy is not reachable."""
        shutil.copytree(sources, self.workdir)
        environ = {**os.environ, "GOPROXY": GO_PROXY, "GOTOOLCHAIN": "local", "GOWORK": "off"}
        command = [go.program, "mod", "download"]
        try:
            download = subprocess.run(
                command, cwd=self.workdir, env=environ, capture_output=True, text=True, timeout=120
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"modules of {sources.name}: the module proxy does not answer")
        if download.returncode != 0:
            reason = download.stderr.strip().splitlines()[-1]
            pytest.skip(f"modules of {sources.name} cannot be downloaded: {reason}")

    def request(self, mode: BuildMode = "dev", env: Mapping[str, str] | None = None) -> BuildRequest:
        resource = Resource("api", "go", self.workdir, env=env or {})
        return BuildRequest(resource, self.root, self.cache, mode, self.reported.append)

    def build(
        self, mode: BuildMode = "dev", env: Mapping[str, str] | None = None, **options: Any
    ) -> ComponentArtifact:
        return asyncio.run(GoLane(**options).build(self.request(mode, env)))

    def ask(
        self,
        artifact: ComponentArtifact,
        *targets: str,
        method: str = "GET",
        fields: Sequence[tuple[str, str]] = (),
        environment: dict[str, str] | None = None,
        egress: tuple[str, ...] = (),
        memory_limit_mb: int = 128,
        run_limit_secs: int = 30,
        fast: bool = True,
        **client: Any,
    ) -> list[Reply]:
        """Send a request for each target, one after the other; `client` has fields of the Client.

        What is not compiled `fast` is compiled as for a deployment.
        """
        resource = Resource(
            "api",
            "go",
            self.workdir,
            egress=egress,
            memory_limit_mb=memory_limit_mb,
            run_limit_secs=run_limit_secs,
        )

        async def main() -> list[Reply]:
            runner = Runner(self.cache)
            replies = []
            try:
                guest = await runner.guest(
                    resource, artifact, environment or {}, fast=fast, report=lambda line: None
                )
                for target in targets:
                    wire = _Wire(guest, fields)
                    answer = await Client(**client).call(wire, target, method)  # type: ignore[arg-type]
                    replies.append(
                        Reply(
                            **{name: getattr(answer, name) for name in Answer.__dataclass_fields__},
                            fields=wire.fields,
                            times=wire.times,
                        )
                    )
            finally:
                await runner.aclose()
            return replies

        return asyncio.run(main())
