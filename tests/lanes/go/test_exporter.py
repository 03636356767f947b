"""The exporter of OpenTelemetry in Go guests."""

import asyncio
from pathlib import Path

import pytest

from engine.manifest.model import Resource
from lanes.go.toolchain import Go
from tests.lanes.go.module import Module
from tests.lanes.logged import run

pytestmark = [pytest.mark.nightly, pytest.mark.slow(seconds=20)]


def test_records_of_the_exporter_arrive_at_the_endpoint_as_it_is_and_as_a_base(
    module: Module, cache: Path, go: Go
) -> None:
    module.copy_with_modules(Path(__file__).with_name("exporter"), go)
    resource = Resource("api", "go", module.workdir)
    artifact = module.build("dev")
    for target in ("/?endpoint=as-it-is", "/?endpoint=base"):
        logged = asyncio.run(run(cache, resource, artifact, target))
        assert (logged.answer.body, logged.answer.lines) == (b"hello", [])
        first, *others = logged.entries
        assert (first.severity, first.body, first.caller.request_id) == ("WARN", "slow order", "request-1")
        assert first.attributes == {"order": "42", "otel.scope.name": "shop"}
        assert [entry.body for entry in others] == [f"number {n}" for n in range(600)]
        assert {answer.status for answer in logged.answers} == {200}
