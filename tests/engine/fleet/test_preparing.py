"""Preparation of deployments on other nodes, on connections to one cluster."""

import asyncio

import pytest

from engine.errors import SvcError
from engine.fleet.connection import NatsConnection
from engine.fleet.errors import FleetError
from engine.fleet.preparing import Preparation
from tests.engine.fleet.cluster import Cluster

NODES = {"n1", "n2", "n3"}


def test_deployment_is_prepared_on_all_present_nodes_or_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.fleet.preparing.REPEAT_SECONDS", 0.2)
    prepared: list[tuple[str, str]] = []
    present = set(NODES)

    async def main() -> None:
        connections = [await NatsConnection.open(cluster.address) for _ in NODES]
        try:
            nodes = {
                name: Preparation(connection, "preparing", name, lambda: present)
                for name, connection in zip(sorted(NODES), connections, strict=True)
            }

            async def prepare(project: str, deployment: str) -> None:
                if deployment == "corrupt":
                    raise SvcError("a file is missing")
                if deployment == "slow":
                    await asyncio.sleep(60)
                await asyncio.sleep(0.3)
                prepared.append((project, deployment))

            for node in nodes.values():
                await node.answer(prepare)
            for connection in connections:
                await connection.flush()
            await nodes["n1"].everywhere("shop", "1")
            assert prepared == [("shop", "1")] * 2
            with pytest.raises(FleetError, match=r"the node n[23] cannot serve .* a file is missing"):
                await nodes["n1"].everywhere("shop", "corrupt")
            monkeypatch.setattr("engine.fleet.preparing.PREPARE_SECONDS", 0.3)
            with pytest.raises(FleetError, match=r"n2, n3 did not prepare the deployment within 0\.3 s"):
                await nodes["n1"].everywhere("shop", "slow")
            present.clear()
            await nodes["n1"].everywhere("shop", "slow")
            for node in nodes.values():
                for task in node._running.values():
                    task.cancel()
        finally:
            for connection in connections:
                await connection.aclose()

    asyncio.run(main())
