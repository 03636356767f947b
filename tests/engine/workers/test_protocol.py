import asyncio
import pickle
import socket

import pytest

from engine.build.builder import LaneMissing
from engine.errors import SvcError
from engine.http.sockets import PortInUse, bind, bind_reuseport
from engine.lane import BuildFailed, Diagnostic, ToolchainMissing
from engine.wasm.compile.component_file import ComponentRejected
from engine.workers.protocol import Channel


@pytest.mark.parametrize(
    "error",
    [
        SvcError("m", "h", code="c"),
        BuildFailed("m", "h", diagnostics=(Diagnostic("wrong", "a.go", 1, 2),), output="said"),
        ToolchainMissing("m", "h"),
        ComponentRejected("m", "h"),
        LaneMissing("m", "h"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_round_trip_through_pickle(error: SvcError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert vars(arrived) == vars(error)


def test_channel_delivers_messages_and_end() -> None:
    async def talk() -> list[object]:
        ours, theirs = socket.socketpair()
        first, second = await Channel.open(ours), await Channel.open(theirs)
        first.send("reply", 7)
        first.send("warn", "x" * 1_000_000)
        received = [await second.receive(), await second.receive()]
        first.close()
        received.append(await second.receive())
        second.send("reply", 8)
        await second.drain()
        second.close()
        return received

    assert asyncio.run(talk()) == [("reply", 7), ("warn", "x" * 1_000_000), None]


def test_each_worker_has_sockets_for_the_same_address() -> None:
    sets = bind_reuseport("localhost", 0, 3)
    opened = [one for each in sets for one in each]
    assert len(sets) == 3 and len({one.getsockname()[1] for one in opened}) == 1
    assert len({one.fileno() for one in opened}) == len(opened)
    port = opened[0].getsockname()[1]
    for again in (lambda: bind("localhost", port), lambda: bind_reuseport("localhost", port, 2)):
        with pytest.raises(PortInUse):
            again()
    for one in opened:
        one.close()
