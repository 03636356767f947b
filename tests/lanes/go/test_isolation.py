"""A Go run finds nothing of earlier ones in its memory, however those ended."""

from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from tests.lanes.go.module import Module
from tests.lanes.go.program import artifact, module
from tests.lanes.isolation import POOLS, End, check_isolation

__all__ = ["artifact", "module"]
pytestmark = [pytest.mark.slow, pytest.mark.fuzz]
SOURCE = Path(__file__).with_name("isolation.go").read_text(encoding="utf-8")
ENDS = [
    End("/well", ("ok",)),
    End("/panics", ("guest-failed",)),
    End("/elsewhere", ("guest-failed",)),
    End("/deadlock", ("guest-failed",)),
    End("/half", ("guest-failed",)),
    End("/exits", ("guest-failed",)),
    End("/exits-late", ("guest-failed",)),
    End("/endless", ("client-gone",), leave_after=3),
    End("/recursion", ("guest-failed",)),
    End("/memory", ("memory-limit",)),
    End("/endless", ("run-limit",), limited=True),
    End("/spins", ("run-limit",), limited=True),
]


@pytest.mark.parametrize("pool", POOLS)
def test_run_begins_with_the_same_memory(module: Module, artifact: ComponentArtifact, pool: str) -> None:
    resource = Resource("api", "go", module.workdir)
    check_isolation(module.cache, resource, artifact, ENDS, pool, environment={}, fast=True)


def test_guest_detects_what_is_left(module: Module, artifact: ComponentArtifact) -> None:
    (answer,) = module.ask(artifact, "/twice")
    assert answer.lines == [("stdout", "left: 1 runs, true set")]
