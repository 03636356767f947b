"""Calls of other nodes, and preparation of deployments on them, on connections to one cluster."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from engine.errors import SvcError
from engine.fleet.connection import NatsConnection
from engine.fleet.errors import FleetError, Unavailable
from engine.fleet.members import PREPARE, Questions
from tests.engine.fleet.cluster import Cluster

NODES = {"n1", "n2", "n3"}


def test_deployment_is_prepared_on_all_present_nodes_or_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.fleet.members.TRY_SECONDS", 0.2)
    prepared: list[tuple[str, str]] = []
    present, preparing = set(NODES), set[str]()

    async def prepare(node: str, project: str, deployment: str) -> None:
        assert node not in preparing, "a question is answered again while it is being answered"
        preparing.add(node)
        try:
            await work(project, deployment)
        finally:
            preparing.discard(node)

    async def work(project: str, deployment: str) -> None:
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
                connection = await _connect(stack, cluster)
                nodes[name] = Questions(connection, "preparing", name, lambda: present)
                await stack.enter_async_context(nodes[name].serve())
                nodes[name].answer(PREPARE, lambda question, name=name: prepare(name, **question))
                await connection.flush()
            await nodes["n1"].prepare_everywhere("shop", "1")
            assert len(prepared) >= 2 and {*prepared} == {("shop", "1")}
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


def test_node_that_stops_fails_the_calls_that_it_has_taken(cluster: Cluster) -> None:
    async def main() -> None:
        taken = asyncio.Event()

        async def receive(_name: str, content: bytes) -> bytes:
            if content == b"short":
                return content
            taken.set()
            await asyncio.Event().wait()
            return b""

        async with AsyncExitStack() as stack:
            first, second = [
                Questions(await _connect(stack, cluster), "stopping", name, lambda: {"n1", "n2"})
                for name in ("n1", "n2")
            ]
            async with first.serve(receive):
                await first._connection.flush()
                long = asyncio.create_task(second.call("n1", "log", b"long"))
                await taken.wait()
                short = [asyncio.create_task(second.call("n1", "log", b"short")) for _ in range(50)]
                await asyncio.sleep(0)
            async with asyncio.timeout(60):
                with pytest.raises(Unavailable):
                    await long
                answers = await asyncio.gather(*short, return_exceptions=True)
            assert all(isinstance(each, Unavailable) or each in (b"short", None) for each in answers)
            assert await second.call("n1", "log", b"short") is None

    asyncio.run(main())


async def _connect(stack: AsyncExitStack, cluster: Cluster) -> NatsConnection:
    connection = await NatsConnection.open(cluster.address)
    stack.push_async_callback(connection.aclose)
    return connection
