"""Programs that share a template write marks over their memory; no later run begins with a mark."""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from engine.wasm.capi import pages
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.host_memories import HostMemories, HostMemory
from engine.wasm.execution.runner import Guest, Runner
from tests.lanes.isolation import End
from tests.lanes.js.sources import Sources
from tests.support.examples import is_fuzzing
from tests.support.guest_client import Client

pytestmark = [pytest.mark.slow, pytest.mark.fuzz, pytest.mark.timeout(3600)]
MARK = b"mark-of-run-"
OFTEN = [
    End("/return", "ok"),
    End("/throw", "guest-failed"),
    End("/stalled", "guest-failed"),
    End("/stream", "client-gone", leave_after=2),
]
ENDS = [*OFTEN * 6, End("/memory", "memory-limit"), End("/endless", "run-limit", limited=True)]
"""In turn; the last two take most of the time."""
AT_ONCE = 6


class Observer:
    """Compares the memory of each run with its image before the run begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.memories: Counter[Path] = Counter()
        self.bases: set[Path] = set()
        self.reused = 0
        self.wrong: list[tuple[Path, int]] = []
        self._initial: dict[tuple[Path, int], bytes] = {}
        self._known: set[HostMemory] = set()
        create = HostMemories.create

        def created(memories: HostMemories, minimum: int, reserved: int, guard: int) -> HostMemory:
            memory = create(memories, minimum, reserved, guard)
            self._check(memory)
            return memory

        monkeypatch.setattr(HostMemories, "create", created)

    def _check(self, memory: HostMemory) -> None:
        source = memory.image.source
        if memory.size == source.minimum:
            self.memories[source.path] += 1
        key = source.path, memory.size
        if key not in self._initial:
            own = memory.size == source.minimum
            content = bytes(source.start) + bytes(memory.image.content) if own else b""
            self._initial[key] = content + bytes(memory.size - len(content))
            assert MARK not in self._initial[key]
        found = bytes(pages.view(memory.address, memory.size))
        if found != self._initial[key]:
            self.wrong.append(key)
        self.bases.add(source.base)
        self.reused += memory in self._known
        self._known.add(memory)


def build(sources: Sources, name: str) -> ComponentArtifact:
    text = Path(__file__).with_name("marks.js").read_text()
    sources.write("index.js", text.replace("NAME", name))
    return sources.build("deploy")


@pytest.mark.parametrize("pool", [PoolSettings(instances=6, warm=0), PoolSettings(instances=6, warm=4)])
def test_no_mark_of_a_run_is_seen_by_another(
    sources: Sources, pool: PoolSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = [build(sources, name) for name in ("one", "another program " * 20)]
    observer, numbers, outcomes = Observer(monkeypatch), count(), Counter[str]()
    resource, runs = replace(sources.resource, memory_limit_mb=48), 10_000 if is_fuzzing() else 2 * len(ENDS)

    async def main() -> None:
        runner = Runner(sources.cache, pool)

        async def guest(artifact: ComponentArtifact, limit: float) -> Guest:
            limited = replace(resource, run_limit_secs=limit)
            return await runner.guest(limited, artifact, {}, fast=False, report=lambda line: None)

        async def work() -> None:
            while (number := next(numbers)) < runs:
                end = ENDS[number % len(ENDS)]
                each = random.choice(guests[end.limited])
                mark = (b"mark", MARK + str(number).encode())
                answer = await Client(leave_after=end.leave_after, headers=(mark,)).call(each, end.path)
                assert answer.report.outcome == end.outcome, (end, answer.report, answer.body)
                assert end.outcome != "ok" or answer.body == mark[1]
                outcomes[end.path] += 1

        guests = [[await guest(each, limit) for each in artifacts] for limit in (300.0, 0.1)]
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        await runner.aclose()

    asyncio.run(main())
    assert observer.wrong == []
    # The time limit of a run may pass before it has a memory.
    assert runs - outcomes["/endless"] <= sum(observer.memories.values()) <= sum(outcomes.values()) == runs
    assert len(observer.memories) == 2 and len(observer.bases) == 1
    assert bool(observer.reused) == bool(pool.warm)
