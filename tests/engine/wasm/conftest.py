import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.lane import BuildRequest
from engine.manifest.model import Resource
from engine.wasm.execution.request import Exchange, RunReport
from engine.wasm.execution.runner import Guest, Runner

SOURCE = Path(__file__).with_name("guest.js")


@dataclass
class Answer:
    """A run's response as seen by the client, and its report."""

    report: RunReport
    status: int | None
    headers: dict[bytes, bytes]
    chunks: list[bytes]
    ended: bool
    lines: list[tuple[str, str]]

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


@dataclass
class Client:
    """A client at the ASGI level: sends a body in pieces, may disconnect, may read slowly.

    It disconnects after a number of chunks, or when the event `leave` is set.
    """

    body: list[bytes] = field(default_factory=list)
    leave_after: int | None = None
    leave: asyncio.Event | None = None
    pause: Callable[[], Awaitable[None]] | None = None
    max_body: int = 32 << 20

    async def call(self, guest: Guest, target: str, method: str = "GET") -> Answer:
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        pieces = self.body or [b""]
        for i, piece in enumerate(pieces):
            inbox.put_nowait({"type": "http.request", "body": piece, "more_body": i < len(pieces) - 1})
        answer = Answer(None, None, {}, [], False, [])  # type: ignore[arg-type]

        async def send(message: dict[str, Any]) -> None:
            if self.pause is not None:
                await self.pause()
            if message["type"] == "http.response.start":
                answer.status, answer.headers = message["status"], dict(message["headers"])
                return
            if message["body"]:
                answer.chunks.append(message["body"])
            answer.ended = not message["more_body"]
            if self.leave_after is not None and len(answer.chunks) >= self.leave_after:
                inbox.put_nowait({"type": "http.disconnect"})

        headers = [(b"host", b"api.localhost")]
        if self.body:
            headers.append((b"transfer-encoding", b"chunked"))
        exchange = Exchange(
            method,
            "http",
            "api.localhost",
            target,
            headers,
            inbox.get,
            send,
            {"SVC_REQUEST_ID": "request-1"},
            lambda stream, text: answer.lines.append((stream, text)),
            self.max_body,
            lambda level, text: answer.lines.append((level, text)),
        )
        leaving = asyncio.create_task(self._leave(inbox))
        answer.report = await guest.run(exchange)
        leaving.cancel()
        return answer

    async def _leave(self, inbox: asyncio.Queue[dict[str, Any]]) -> None:
        if self.leave is not None:
            await self.leave.wait()
            inbox.put_nowait({"type": "http.disconnect"})


@pytest.fixture(scope="session")
def artifact(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> ComponentArtifact:
    """The component of `guest.js`, built as for a deploy."""
    from lanes.js.lane import JsLane

    folder = tmp_path_factory.mktemp("guest")
    entry = folder / "index.js"
    entry.write_text(SOURCE.read_text())

    async def build() -> ComponentArtifact:
        lane = JsLane()
        try:
            request = BuildRequest(Resource("api", "js", folder, entry=entry), folder, cache, "deploy")
            built = await lane.build(request)
        finally:
            await lane.aclose()
        assert isinstance(built, ComponentArtifact)
        return built

    return asyncio.run(build())


@pytest.fixture
def serve(cache: Path, artifact: ComponentArtifact) -> Callable[..., Any]:
    """Return `serve(body, **resource_fields)`: run `await body(guest, runner)` on a fresh runner."""

    def start(body: Callable[[Guest, Runner], Awaitable[Any]], **fields: Any) -> Any:
        async def main() -> Any:
            runner = Runner(cache, fields.pop("pool", None), queue=fields.pop("queue", 1024))
            try:
                resource = Resource("api", "js", Path("/"), **fields)
                guest = await runner.guest(
                    resource, artifact, {"SVC_PROJECT": "test"}, fast=False, report=lambda line: None
                )
                return await body(guest, runner)
            finally:
                await runner.aclose()

        return asyncio.run(main())

    return start
