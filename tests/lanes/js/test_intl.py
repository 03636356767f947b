"""`Intl` of the js lane, in dev and deploy mode; `intl.js` computes the results."""

import json
from pathlib import Path

import pytest

from engine.lane import BuildMode
from tests.lanes.js.sources import Sources, ask

pytestmark = pytest.mark.slow
RESULTS = {
    "currency": ["€1,234.50", "1.234,50\u00a0€"],
    "numbers": ["26%", "1,234.5", "1,2\u00a0Mio."],
    "plurals": ["one", "two", "few"],
    "zones": ["Saturday, July 4, 2026, 11:06:07 AM EDT", "07/04/2026, 17:06", "UTC", "en"],
    "dates": ["Samstag, 4. Juli", "7/4/2026", "3:06:07 PM"],
    "unknown": "RangeError",
    "relative": "yesterday",
    "list": "a, b, and c",
    "order": [["a2", "a10", "B1"], "-1aeEézZ", 0, 0],
    "segments": [["e\u0301", "👨‍👩‍👧", "x"], ["Hello", "world"]],
    "locales": [["en-US"], ["de"], "Hant"],
}


@pytest.mark.parametrize("mode", ["dev", pytest.param("deploy", marks=pytest.mark.nightly)])
def test_intl_formats_as_the_standard_says(sources: Sources, mode: BuildMode) -> None:
    sources.write("index.js", Path(__file__).with_name("intl.js").read_text())
    (answer,) = ask(sources, sources.build(mode), "/")
    assert answer.status == 200, answer
    text = answer.body.decode().replace("\u202f", " ")
    assert json.loads(text) == RESULTS


def test_bundle_without_intl_contains_none(sources: Sources) -> None:
    text = "`${(1).toLocaleString()} ${'a'.localeCompare('b')}`"
    sources.write("index.js", f"export default {{ fetch: () => new Response({text}) }};\n")
    assert len(sources.build().script or "") < 4096
