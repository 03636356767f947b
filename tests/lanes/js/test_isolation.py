"""A js run begins with the same memory as each other one, whose program may be another."""

import pytest

from engine.lane import BuildMode
from engine.wasm.execution.host_memories import HostMemory
from tests.lanes.isolation import End, check_isolation
from tests.lanes.js.programs import Programs

pytestmark = [pytest.mark.slow, pytest.mark.fuzz]
ENDS = [
    End("/types", "ok", program="odd"),
    End("/cause", "guest-failed", program="odd"),
    End("/timer", "guest-failed", program="odd"),
    End("/never", "guest-failed", program="odd"),
    End("/pull", "guest-failed", program="odd"),
    End("/memory", "memory-limit", program="odd"),
    End("/regex", "run-limit", program="odd", limited=True),
    End("/recursion", "ok", program="memory"),
    End("/array-buffer", "ok", program="memory"),
    End("/left/pull", "client-gone", program="guest_library", leave_after=3),
    End("/forever", "run-limit", program="guest_library", limited=True),
]
MODES = pytest.mark.parametrize(("mode", "pool"), [("dev", "cold"), ("deploy", "warm")])


def check(programs: Programs, mode: BuildMode, pool: str) -> None:
    artifacts = {end.program: programs.artifact(end.program, mode) for end in ENDS}
    check_isolation(programs, artifacts, ENDS, pool)


@MODES
def test_run_begins_with_the_same_memory(programs: Programs, mode: BuildMode, pool: str) -> None:
    check(programs, mode, pool)


def test_memory_that_was_not_reset_is_found(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostMemory, "reset", lambda memory: memory.size == memory._minimum)
    with pytest.raises(AssertionError):
        check(programs, "deploy", "warm")
