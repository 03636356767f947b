import asyncio
from collections.abc import Generator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.fleet.bucket import JetStreamBucket
from tests.engine.fleet import cluster as clusters
from tests.engine.fleet.cluster import Cluster
from tests.engine.fleet.machines import machines
from tests.support.buckets import Scenario, Use
from tests.support.fleet import require_nats

__all__ = ["machines"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of the nats-servers to the report of a failed test."""
    report = yield
    if report.failed:
        base = item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        report.sections += clusters.server_logs(base)
    return report


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes for all tests, which must leave them running."""
    require_nats()
    with clusters.running(tmp_path_factory.mktemp("cluster ü")) as running:
        yield running


@pytest.fixture
def use(cluster: Cluster, tmp_path: Path) -> Use:
    """Open the test's bucket, run a scenario on it and close it; every call uses the same bucket."""
    namespace = sha256(str(tmp_path).encode()).hexdigest()[:12]

    def use(scenario: Scenario) -> Any:
        async def main() -> Any:
            bucket = await JetStreamBucket.open(cluster.address, namespace, tmp_path / "uploads")
            try:
                return await scenario(bucket)
            finally:
                await bucket.aclose()

        return asyncio.run(main())

    return use
