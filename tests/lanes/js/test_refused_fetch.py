"""A fetch that the host refuses at once rejects its promise, whatever its body, and the program goes on."""

from pathlib import Path

import pytest

from tests.engine.wasm.conftest import Answer
from tests.lanes.js.conftest import Sources, ask

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
def test_the_promise_is_rejected(answers: dict[str, Answer], body: str) -> None:
    answer = answers[body]
    assert (answer.report.outcome, answer.report.detail) == ("ok", "")
    assert answer.body == b"[true,true]"
    assert [text for level, text in answer.lines if level == "WARN" and "denied.example" in text]
