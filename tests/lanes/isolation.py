"""Runs of one guest that end in different ways, with a checksum of the memory that each begins with."""

import asyncio
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from engine.wasm.capi import pages
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.host_memories import HostMemories, HostMemory
from engine.wasm.execution.runner import Runner
from tests.support.examples import is_fuzzing
from tests.support.guest_client import Client

POOLS = {"cold": PoolSettings(instances=3, warm=0), "warm": PoolSettings(instances=3, warm=2)}
LIMIT_SECONDS = 0.3
"""Time limit of the ends that need one."""


@dataclass(frozen=True, slots=True)
class End:
    """A path of the guest, what the client does, and the outcomes of the run."""

    path: str
    outcomes: tuple[str, ...]
    leave_after: int | None = None
    limited: bool = False


@contextmanager
def initial_memories() -> Iterator[dict[int, set[int]]]:
    """Collect checksums of all memories as runs get them, by size; added pages must be zero."""
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
        checksums.setdefault(0, set()).add(bool(added.strip(b"\0")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostMemories, "create", created)
        patch.setattr(HostMemory, "grow", grown)
        yield checksums


def check_isolation(
    cache: Path,
    resource: Resource,
    artifact: ComponentArtifact,
    ends: Sequence[End],
    pool: str,
    **fields: Any,
) -> None:
    """Run the ends in different orders; fail if a run finds anything of another one.

    The guest prints `left: …` for what it finds. `fields` are those of `Runner.guest`.
    """
    orders = [
        random.sample(ends, len(ends)) for _ in range(250 if is_fuzzing() else 1 + POOLS[pool].warm // 2)
    ]
    with initial_memories() as checksums:
        asyncio.run(_run(Runner(cache, POOLS[pool]), resource, artifact, orders, fields))
    assert len(checksums) > 1 and checksums.pop(0) == {False}
    assert all(len(found) == 1 for found in checksums.values()), checksums


async def _run(
    runner: Runner,
    resource: Resource,
    artifact: ComponentArtifact,
    orders: Sequence[Sequence[End]],
    fields: Mapping[str, Any],
) -> None:
    async def guest(resource: Resource) -> Any:
        return await runner.guest(resource, artifact, report=lambda line: None, **fields)

    async def run(end: End) -> None:
        chosen = limited if end.limited else unlimited
        answer = await Client(leave_after=end.leave_after).call(chosen, end.path)
        assert answer.report.outcome in end.outcomes, (end.path, answer.report)
        assert not [text for _, text in answer.lines if text.startswith("left:")], (end.path, answer.lines)

    try:
        unlimited, limited = (
            await guest(resource),
            await guest(replace(resource, run_limit_secs=LIMIT_SECONDS)),
        )
        for order in orders:
            await asyncio.gather(*map(run, order))
    finally:
        await runner.aclose()
