"""A denied fetch rejects its promise for any body, and the program continues."""

import asyncio
import json
from pathlib import Path

import pytest

from doors.tables.door import TablesDoor
from engine.door import DoorContext
from engine.wasm.execution.runner import Runner
from engine.wasm.outbound.door_calls import DoorBinding
from tests.lanes.js.sources import Sources, ask
from tests.support.guest_client import Answer, Client

pytestmark = pytest.mark.slow
BODIES = ["/none", "/empty", "/text", "/bytes", "/large", "/stream"]
SOURCE = """
const bytes = (count) => new Uint8Array(count);
const streamed = (chunks) => new ReadableStream({
  pull(controller) {
    if (chunks-- > 0) controller.enqueue(bytes(1 << 16));
    else controller.close();
  },
});
const bodies = {
  '/none': () => undefined,
  '/empty': () => '',
  '/text': () => 'text',
  '/bytes': () => bytes(800),
  '/large': () => bytes(3 << 20),
  '/stream': () => streamed(40),
};
export default {
  async fetch(request) {
    const body = bodies[new URL(request.url).pathname]();
    const said = [];
    for (let i = 0; i < 2; i++) {
      try {
        await fetch('http://denied.example/', { method: 'POST', body: i ? 'again' : body, duplex: 'half' });
        said.push('answered');
      } catch (error) {
        said.push(error instanceof Error);
      }
    }
    return Response.json(said);
  },
};
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[str, Answer]:
    sources = Sources(tmp_path_factory.mktemp("refused ü").resolve(), cache)
    sources.write("index.js", SOURCE)
    return dict(zip(BODIES, ask(sources, sources.build(), *BODIES), strict=True))


@pytest.mark.parametrize("body", BODIES)
def test_denied_fetch_rejects_its_promise(answers: dict[str, Answer], body: str) -> None:
    answer = answers[body]
    assert (answer.report.outcome, answer.report.detail) == ("ok", "")
    assert answer.body == b"[true,true]"
    assert [text for level, text in answer.lines if level == "WARN" and "denied.example" in text]


def test_body_above_the_limit_of_a_door_is_answered_with_413(
    sources: Sources, cache: Path, tmp_path: Path
) -> None:
    sources.write(
        "index.js",
        "export default { fetch: () => fetch('http://tables.svc.internal/v1/query', "
        "{ method: 'POST', body: new Uint8Array(3 << 20) }) };",
    )

    artifact = sources.build()

    async def run() -> Answer:
        runner = Runner(cache)
        door = TablesDoor().open(DoorContext("test", tmp_path / "tables", lambda entry: None))
        doors = {"tables": DoorBinding(door, 1 << 20)}
        try:
            guest = await runner.guest(
                sources.resource, artifact, {}, fast=False, report=lambda line: None, doors=doors
            )
            return await Client().call(guest, "/")
        finally:
            await runner.aclose()
            await door.aclose()

    answer = asyncio.run(run())
    assert (answer.report.outcome, answer.status) == ("ok", 413)
    problem = json.loads(answer.body)
    assert (problem["code"], problem["type"]) == ("body-too-large", "urn:svc:problem:body-too-large")
    assert "1048576 bytes" in problem["detail"]
