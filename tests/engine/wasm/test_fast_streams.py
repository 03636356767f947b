"""Fast streams, which pass bytes as strings: exact for every size, position and value."""

import asyncio
import hashlib
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import Engine, WasmtimeError
from wasmtime.component import Component

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from engine.wasm.binary.fast_streams import add_fast_streams
from engine.wasm.binary.fast_streams.modules import FAST_STREAMS
from engine.wasm.binary.memory_probe import add_probe
from engine.wasm.binary.reader import read_outline
from engine.wasm.execution.buffers import BUFFER_BYTES
from engine.wasm.execution.config import Compiler, PoolSettings, compile_config
from engine.wasm.execution.runner import Guest, Runner
from tests.engine.wasm.conftest import Answer, Client
from tests.engine.wasm.echo_guest import Mode, echo_component
from tests.support.examples import examples, is_fuzzing

TEXT = bytes(range(32, 127)) * 32
RANDOM = random.Random(11).randbytes(200_000)
ALL = bytes(range(256)) * 300


class Echo:
    """The echoing guest; `ask` is one run of it. `permit` is the expected permit of check-write."""

    def __init__(self, loop: asyncio.AbstractEventLoop, guest: Guest) -> None:
        self._loop = loop
        self.guest = guest
        self.permit = 65_536

    def ask(
        self,
        pieces: list[bytes],
        most: int = 1 << 20,
        carry: int = 1 << 20,
        place: int = 16,
        mode: Mode = Mode.CHECKED,
        **client: Any,
    ) -> Answer:
        body = [struct.pack("<4I", most, carry, place, mode), *pieces]
        return self._loop.run_until_complete(Client(body, **client).call(self.guest, "/", "POST"))


@contextmanager
def running(folder: Path, component: bytes, *, fast: bool = False, memory_mb: int = 128) -> Iterator[Echo]:
    """Run a component with a pool of a few instances."""
    path = folder / "guest.wasm"
    path.write_bytes(component)
    artifact = ComponentArtifact(path, hashlib.sha256(component).hexdigest())
    resource = Resource("api", "rust", folder, memory_limit_mb=memory_mb)
    with asyncio.Runner() as loop:

        async def start() -> tuple[Runner, Guest]:
            runner = Runner(folder, PoolSettings(instances=4))
            return runner, await runner.guest(resource, artifact, {}, fast=fast, report=lambda line: None)

        runner, guest = loop.run(start())
        try:
            yield Echo(loop.get_loop(), guest)
        finally:
            loop.run(runner.aclose())


KINDS: dict[str, tuple[dict[str, bool], bool]] = {
    "optimised": ({}, False),
    "baseline": ({}, True),
    "another-table": ({"direct": True}, False),
    "plain": ({"understood": False}, False),
}


@pytest.fixture(scope="module", params=KINDS)
def echo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Echo]:
    """The guest from each compiler, with fast streams and without."""
    shape, fast = KINDS[request.param]
    with running(tmp_path_factory.mktemp("echo"), echo_component(**shape), fast=fast) as echo:
        if request.param == "plain":
            echo.permit = 4096
        yield echo


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Echo]:
    with running(tmp_path_factory.mktemp("echo"), echo_component()) as echo:
        yield echo


def same(answer: Answer, body: bytes) -> None:
    assert answer.report.detail == ""
    assert (answer.ended, len(answer.body)) == (True, len(body))
    assert answer.body == body


@pytest.mark.parametrize(
    "size", [0, 1, 7, 8, 31, 32, 33, 55, 56, 57, 111, 112, 113, 4095, 4096, 4097, 65_535]
)
@pytest.mark.parametrize("data", [TEXT * 30, RANDOM, ALL], ids=["text", "random", "all"])
def test_body_of_any_size_round_trips(echo: Echo, data: bytes, size: int) -> None:
    same(echo.ask([data[:size]]), data[:size])


@pytest.mark.parametrize("place", [1, 2, 3, 5, 7, 63])
@pytest.mark.parametrize("mode", [Mode.CHECKED, Mode.BLOCKING, Mode.EMPTY])
def test_unaligned_pointers_are_accepted(echo: Echo, mode: Mode, place: int) -> None:
    pieces = [TEXT, RANDOM[:5000], b"", b"\xff", ALL[:9000]]
    same(echo.ask(pieces, place=place, mode=mode, carry=4096), b"".join(pieces))


@pytest.mark.parametrize(("most", "carry"), [(1, 1), (7, 3), (100, 57), (5000, 4096), (65_536, 65_536)])
def test_guest_controls_call_size(echo: Echo, most: int, carry: int) -> None:
    pieces = [TEXT[:700], RANDOM[:1300], TEXT[:3] + b"\x80" + TEXT[:60]]
    same(echo.ask(pieces, most=most, carry=carry), b"".join(pieces))


def test_every_byte_value_at_every_block_position_round_trips(patched: Echo) -> None:
    body = b"".join(bytes([value]) * place + b"." for value in range(256) for place in range(57))
    same(patched.ask([body[i : i + 65_536] for i in range(0, len(body), 65_536)]), body)


def test_megabytes_round_trip(patched: Echo) -> None:
    dice = random.Random(5)
    pieces = [
        dice.randbytes(65_536) if dice.random() < 0.5 else (TEXT * 30)[: dice.randrange(65_536)]
        for _ in range(160)
    ]
    answer = patched.ask(pieces)
    same(answer, b"".join(pieces))
    assert answer.report.bytes_in == answer.report.bytes_out + 16
    assert max(map(len, answer.chunks)) > 32_768


@settings(derandomize=not is_fuzzing(), max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_arbitrary_bytes_round_trip(patched: Echo, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.binary(max_size=300) | st.text("abcé€", max_size=90).map(str.encode)))
    pieces += [bytes(data.draw(st.integers(0, 70_000))) + data.draw(st.binary(max_size=80))]
    most, carry = data.draw(st.integers(1, 70_000)), data.draw(st.integers(40, 70_000))
    mode = data.draw(st.sampled_from([Mode.CHECKED, Mode.EMPTY]))
    same(patched.ask(pieces, most, carry, data.draw(st.integers(1, 999)), mode), b"".join(pieces))


def test_permit_is_64_kib_with_fast_streams_and_4096_without(echo: Echo) -> None:
    answer = echo.ask([], mode=Mode.PERMITS)
    assert struct.unpack("<2I", answer.body[3:]) == (echo.permit, echo.permit)


def test_write_above_permit_traps_and_sends_nothing(echo: Echo) -> None:
    answer = echo.ask([], mode=Mode.BEYOND_PERMIT)
    assert answer.report.outcome == "guest-failed"
    message = f"write of {echo.permit + 1} bytes where check-write permitted {echo.permit}"
    assert message in answer.report.detail
    assert answer.body == b""


def test_patched_blocking_write_above_4096_bytes_traps(patched: Echo) -> None:
    for body in (TEXT * 2, RANDOM[:5000]):
        answer = patched.ask([body], mode=Mode.BLOCKING, carry=4097)
        assert "blocking-write-and-flush of" in answer.report.detail
        assert "at most 4096 are allowed" in answer.report.detail


@pytest.mark.parametrize("first", [0x20, 0xFF])
def test_write_from_outside_memory_traps(echo: Echo, first: int) -> None:
    answer = echo.ask([], mode=Mode.BEYOND_MEMORY, carry=first)
    assert answer.report.outcome == "guest-failed" and answer.body == b""
    assert "memory" in answer.report.detail or "bounds" in answer.report.detail


def test_slow_client_applies_backpressure(patched: Echo) -> None:
    async def pause() -> None:
        await asyncio.sleep(0)

    pieces = [RANDOM[:60_000]] * 20
    answer = patched.ask(pieces, pause=pause)
    same(answer, b"".join(pieces))
    assert max(map(len, answer.chunks)) <= BUFFER_BYTES


def test_scratch_memory_is_not_reported_as_peak(patched: Echo, tmp_path: Path) -> None:
    """Eight pages belong to the guest; a limit that fits only them is enough."""
    report = patched.ask([RANDOM[:60_000]]).report
    assert report.peak_memory == 8 * 65_536
    with running(tmp_path, echo_component(), memory_mb=1) as echo:
        same(echo.ask([RANDOM]), RANDOM)


def test_slots_are_reusable(patched: Echo) -> None:
    for _ in range(30):
        same(patched.ask([RANDOM[:3000]]), RANDOM[:3000])


def imports(component: bytes) -> set[str]:
    return {name.partition("@")[0] for name in read_outline(component).imports}


def test_fast_streams_only_append_sections() -> None:
    component = add_probe(echo_component())
    patched = add_fast_streams(component)
    assert patched.startswith(component) and FAST_STREAMS in imports(patched)
    assert len(patched) - len(component) < 4000


def test_unknown_structure_stays_unchanged() -> None:
    component = echo_component(understood=False)
    assert add_fast_streams(component) is component
    for data in (b"", b"\0asm\1\0\0\0", b"not wasm at all", echo_component()[:-3]):
        assert add_fast_streams(data) == data


def test_patched_component_is_not_patched_again(tmp_path: Path) -> None:
    with running(tmp_path, add_fast_streams(echo_component())) as echo:
        same(echo.ask([RANDOM[:9000]]), RANDOM[:9000])


def mutations(component: bytes, count: int) -> Iterator[bytes]:
    dice = random.Random(7)
    for _ in range(count):
        data = bytearray(component)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(8, len(data))] = dice.randrange(256)
        yield bytes(data if dice.random() < 0.8 else data[: dice.randint(8, len(data))])


def test_mutated_component_never_raises_in_fast_streams() -> None:
    stored = 0
    for data in mutations(echo_component(), 3000):
        stored += add_fast_streams(data) is data
    assert 0 < stored < 3000


def test_mutated_component_still_compiles_with_fast_streams() -> None:
    engine = Engine(compile_config(Compiler.BASELINE))

    def compiles(data: bytes) -> bool:
        try:
            Component(engine, data)
        except WasmtimeError:
            return False
        return True

    valid = [data for data in mutations(echo_component(), 400) if compiles(data)]
    assert valid
    assert all(compiles(add_fast_streams(data)) for data in valid)
