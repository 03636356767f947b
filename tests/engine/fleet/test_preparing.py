"""Preparation of deployments on other nodes, on connections to one cluster."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from engine.errors import SvcError
from engine.fleet.connection import NatsConnection
from engine.fleet.errors import FleetError
from engine.fleet.members import Questions
from tests.engine.fleet.cluster import Cluster

NODES = {"n1", "n2", "n3"}


def test_deployment_is_prepared_on_all_present_nodes_or_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.fleet.members.TRY_SECONDS", 0.2)
    prepared: list[tuple[str, str]] = []
    present = set(NODES)

    async def prepare(project: str, deployment: str) -> None:
        if deployment == "corrupt":
            raise SvcError("a file is missing")
        if deployment == "unexpected":
            raise ZeroDivisionError
        if deployment == "slow":
            await asyncio.sleep(60)
        await asyncio.sleep(0.3)
        prepared.append((project, deployment))

    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes = {}
            for name in sorted(NODES):
                connection = await NatsConnection.open(cluster.address)
                stack.push_async_callback(connection.aclose)
                nodes[name] = Questions(connection, "preparing", name, lambda: present)
                await stack.enter_async_context(nodes[name].serve())
                nodes[name].prepare_with(prepare)
                await connection.flush()
            await nodes["n1"].prepare_everywhere("shop", "1")
            assert prepared == [("shop", "1")] * 2
            with pytest.raises(FleetError, match=r"the node n[23] cannot serve .* a file is missing"):
                await nodes["n1"].prepare_everywhere("shop", "corrupt")
            with pytest.raises(FleetError, match=r"the node n[23] cannot serve .* internal error"):
                await nodes["n1"].prepare_everywhere("shop", "unexpected")
            monkeypatch.setattr("engine.fleet.members.PREPARE_SECONDS", 0.3)
            with pytest.raises(FleetError, match=r"n2, n3 did not prepare the deployment within 0\.3 s"):
                await nodes["n1"].prepare_everywhere("shop", "slow")
            present.clear()
            await nodes["n1"].prepare_everywhere("shop", "slow")

    asyncio.run(main())
