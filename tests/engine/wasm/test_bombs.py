"""Components of `bombs.py` run, or are rejected by a limit that the error names."""

import asyncio
import random
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine.manifest.model import Resource
from engine.wasm.binary.reader import declared_limits
from engine.wasm.compile import code_cache
from engine.wasm.compile.check import check_component
from engine.wasm.compile.component_file import ComponentRejected
from engine.wasm.execution.runner import Runner
from engine.wasm_binary import UnsupportedBinary
from tests.engine.wasm import text_guest
from tests.engine.wasm.bombs import BOMBS
from tests.support.examples import is_fuzzing
from tests.support.guest_client import Client

QUICK = [
    "nested types",
    "nested component types",
    "doubled types",
    "nested components",
    "globals",
    "instances",
]
LIMITS = re.compile(
    "does not compile within (10 s of CPU time|1024 MiB of memory)$"
    "|exceeds? (the )?(per-instance )?(limit|configured maximum) of"
    "|nesting is too deep|`br_table` has [0-9]+ targets|a structure that svc cannot run: "
)


async def outcome(cache: Path, binary: bytes) -> str:
    """Compile a component as for a deploy, and send it a request."""
    artifact, runner = text_guest.artifact(cache, binary), Runner(cache)
    resource = Resource("api", "rust", Path("/"), run_limit_secs=1)
    try:
        guest = await runner.guest(resource, artifact, {}, fast=False, report=lambda line: None)
        return (await Client().call(guest, "/h")).report.outcome
    finally:
        await runner.aclose()


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", BOMBS if is_fuzzing() else QUICK)
def test_large_component_runs_or_is_rejected_by_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(code_cache, "CPU_SECONDS", 10)
    monkeypatch.setattr(code_cache, "MEMORY_BYTES", 1 << 30)
    binary = BOMBS[kind](random.randint(1, 100) if is_fuzzing() else 100)
    began = time.thread_time()
    with suppress(ComponentRejected, UnsupportedBinary):
        check_component(text_guest.artifact(tmp_path, binary).component)
        declared_limits(binary)
    assert time.thread_time() - began < 1, "the service analyzes it too long"
    try:
        assert asyncio.run(outcome(tmp_path, binary)) in {"ok", "run-limit", "memory-limit"}
    except ComponentRejected as error:
        assert LIMITS.search(error.message), error.message
        assert not list((tmp_path / "compiled").glob("*.cwasm"))
