"""Runs that end in different ways, with a checksum of the memory that each of them begins with."""

import asyncio
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from engine.artifact import ComponentArtifact
from engine.wasm.capi import pages
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.host_memories import HostMemories, HostMemory
from engine.wasm.execution.runner import Runner
from tests.lanes.js.sources import Sources
from tests.lanes.workdir import Workdir, compiles_fast
from tests.support.examples import is_fuzzing
from tests.support.guest_client import Client

POOLS = {"cold": PoolSettings(instances=3, warm=0), "warm": PoolSettings(instances=3, warm=2)}
ORDERS = 250


@dataclass(frozen=True, slots=True)
class End:
    """A path of a program, and the outcome of its run.

    The client leaves after some chunks, or the run has a time limit of 0.3 s.
    """

    path: str
    outcome: str
    leave_after: int | None = None
    program: str = ""
    limited: bool = False


@contextmanager
def initial_memories() -> Iterator[dict[int, set[int]]]:
    """Collect checksums of memories as runs get them, by size, and of added pages, as size 0."""
    checksums: dict[int, set[int]] = {}
    create, grow = HostMemories.create, HostMemory.grow

    def created(memories: HostMemories, minimum: int, reserved: int, guard: int) -> HostMemory:
        memory = create(memories, minimum, reserved, guard)
        checksums.setdefault(minimum, set()).add(zlib.crc32(pages.view(memory.address, memory.size)))
        return memory

    def grown(memory: HostMemory, size: int) -> None:
        before = memory.size
        grow(memory, size)
        added = bytes(pages.view(memory.address + before, size - before))
        checksums.setdefault(0, set()).add(len(added.strip(b"\0")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostMemories, "create", created)
        patch.setattr(HostMemory, "grow", grown)
        yield checksums


def check_isolation(
    sources: Workdir, artifacts: Mapping[str, ComponentArtifact], ends: Sequence[End], pool: str
) -> None:
    """Run the ends in random orders; fail if two runs begin with different memories."""
    resource = sources.resource if isinstance(sources, Sources) else sources.request().resource

    async def main() -> None:
        runner = Runner(sources.cache, POOLS[pool])

        async def run(end: End) -> None:
            artifact, environment = artifacts[end.program], {"PROGRAM": end.program}
            limited = replace(resource, run_limit_secs=0.3 if end.limited else 300)
            fast = compiles_fast(artifact)
            guest = await runner.guest(limited, artifact, environment, fast=fast, report=lambda line: None)
            answer = await Client(leave_after=end.leave_after).call(guest, end.path)
            assert answer.report.outcome == end.outcome, (end, answer.report)

        try:
            for _ in range(ORDERS if is_fuzzing() else 1 + POOLS[pool].warm // 2):
                await asyncio.gather(*map(run, random.sample(ends, len(ends))))
        finally:
            await runner.aclose()

    with initial_memories() as checksums:
        asyncio.run(main())
    assert len(checksums) > 1 and checksums[0] == {0}
    assert all(len(found) == 1 for found in checksums.values()), checksums
