"""OpenTelemetry exporters in Go guests."""

import asyncio
from pathlib import Path

import pytest

from engine.lane import BuildMode
from engine.manifest.model import Resource
from tests.lanes.go.module import Module
from tests.lanes.logged import run

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("exporter.go").read_text(encoding="utf-8")


@pytest.mark.parametrize("mode", ["dev", "deploy"])
def test_records_of_a_batching_exporter_arrive(module: Module, cache: Path, mode: BuildMode) -> None:
    module.program(SOURCE)
    resource = Resource("api", "go", module.workdir)
    logged = asyncio.run(run(cache, resource, module.build(mode), "/"))
    assert (logged.answer.body, logged.answer.lines) == (b"hello", [])
    first, *others = logged.entries
    assert (first.severity, first.body, first.caller.request_id) == ("WARN", "slow order", "request-1")
    assert first.attributes == {"order": "42", "otel.scope.name": "shop"}
    assert [entry.body for entry in others] == [f"number {n}" for n in range(600)]
    assert [answer.status for answer in logged.answers] == [200]
