"""A Go run begins with the same memory as each other one."""

from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes.go.module import Module
from tests.lanes.go.program import artifact, module
from tests.lanes.isolation import POOLS, End, check_isolation

__all__ = ["artifact", "module"]
pytestmark = [pytest.mark.slow, pytest.mark.fuzz]
SOURCE = Path(__file__).with_name("program.go").read_text(encoding="utf-8")
ENDS = [
    End("/workers", "ok"),
    End("/panic", "guest-failed"),
    End("/panic-elsewhere", "guest-failed"),
    End("/late-panic", "guest-failed"),
    End("/aborted?late=1", "aborted"),
    End("/deadlock", "guest-failed"),
    End("/exit/0", "guest-failed"),
    End("/exit/3", "guest-failed"),
    End("/recursion", "guest-failed"),
    End("/memory", "memory-limit"),
    End("/forever", "client-gone", leave_after=3),
    End("/until-left", "client-gone", leave_after=1),
    End("/forever", "run-limit", limited=True),
    End("/spin", "run-limit", limited=True),
]


@pytest.mark.parametrize("pool", POOLS)
def test_run_begins_with_the_same_memory(module: Module, artifact: ComponentArtifact, pool: str) -> None:
    check_isolation(module, {"": artifact}, ENDS, pool)
