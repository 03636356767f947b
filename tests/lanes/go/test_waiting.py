"""Host calls of a waiting program: a single call if no other goroutine can run."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.http.exchange import RequestBody
from engine.manifest.model import Resource
from engine.wasm.capi.host_functions import FUNCTIONS, Suspend
from engine.wasm.execution.runner import Runner
from tests.engine.exchanges import CollectingExchange, guest_request
from tests.lanes.go.deployed import artifact, program

__all__ = ["artifact", "program"]
pytestmark = pytest.mark.slow
WAIT = "svc:run/host#wait"
NEVER = (1 << 64) - 1
Waits = list[tuple[bytes, bool]]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waits]:
    """Record the waits of a guest: the sources that it waits for, and whether it waits for a timer, too."""
    result: Waits = []
    wait = FUNCTIONS[WAIT].body

    def watched(run: Any, sources: bytes, deadline: int) -> Any:
        value = wait(run, sources, deadline)
        if isinstance(value, Suspend):
            result.append((sources.partition(b"|")[0].strip(), deadline != NEVER))
        return value

    monkeypatch.setitem(FUNCTIONS, WAIT, replace(FUNCTIONS[WAIT], body=watched))
    yield result


def upload(artifact: ComponentArtifact, cache: Path, path: str, *, with_head: bool) -> bytes:
    """Send 200,000 bytes: with the head, or a moment later; return the response body."""
    body, sent = RequestBody(), list[bytes]()

    def arrive() -> None:
        body.feed(b"x" * 200_000)
        body.finish()

    async def main() -> None:
        runner = Runner(cache)
        try:
            resource = Resource("api", "go", cache)
            guest = await runner.guest(resource, artifact, {}, fast=False, report=lambda line: None)
            fields = [(b"host", b"api.localhost"), (b"content-length", b"200000")]
            exchange = CollectingExchange(path, method="POST", body=body)
            request = guest_request(exchange, method="POST", target=path, headers=fields, max_body=1 << 20)
            if with_head:
                arrive()
            else:
                asyncio.get_running_loop().call_later(0.3, arrive)
            report = await guest.run(request)
            sent.append(b"".join(exchange.parts))
            assert report.outcome == "ok", report.detail
        finally:
            await runner.aclose()

    asyncio.run(main())
    return sent[0]


def test_program_waits_once_for_its_input(artifact: ComponentArtifact, cache: Path, waits: Waits) -> None:
    assert upload(artifact, cache, "/upload", with_head=False) == b"200000 <nil>"
    assert waits == [(b"r0", False)]


def test_program_waits_once_for_its_input_and_a_timer(
    artifact: ComponentArtifact, cache: Path, waits: Waits
) -> None:
    assert upload(artifact, cache, "/timer", with_head=False) == b"200000 <nil>"
    assert waits == [(b"r0", True)]


def test_body_that_arrived_with_the_head_needs_no_wait(
    artifact: ComponentArtifact, cache: Path, waits: Waits
) -> None:
    assert upload(artifact, cache, "/upload", with_head=True) == b"200000 <nil>"
    assert waits == []
