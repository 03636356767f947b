"""A js run finds nothing of earlier ones, however those ended."""

import pytest

from engine.lane import BuildMode
from tests.lanes.isolation import End, check_isolation
from tests.lanes.js.programs import Programs
from tests.lanes.workdir import compiles_fast

pytestmark = [pytest.mark.slow, pytest.mark.fuzz]
ENDS = [
    End("/well", ("ok",)),
    End("/throws", ("guest-failed",)),
    End("/rejects", ("guest-failed",)),
    End("/half", ("guest-failed",)),
    End("/endless", ("client-gone",), leave_after=3),
    End("/recursion", ("guest-failed",)),
    End("/memory", ("guest-failed", "memory-limit")),
    End("/endless", ("run-limit",), limited=True),
    End("/spins", ("run-limit",), limited=True),
]


@pytest.mark.parametrize(("mode", "pool"), [("dev", "cold"), ("deploy", "warm")])
def test_run_begins_with_the_same_memory_and_state(programs: Programs, mode: BuildMode, pool: str) -> None:
    artifact = programs.artifact("isolation", mode)
    fields = {"environment": {"PROGRAM": "isolation"}, "fast": compiles_fast(artifact)}
    check_isolation(programs.cache, programs.resource, artifact, ENDS, pool, **fields)


def test_guest_detects_what_is_left(programs: Programs) -> None:
    answer = programs.answers("isolation", "dev", ["/twice"])["/twice"]
    (line,) = [text for _, text in answer.lines if text.startswith("left:")]
    assert line == "left: module state, names, functions, last match, environment"
