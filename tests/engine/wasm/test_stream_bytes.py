"""Bytes of streams, which cross to the host as text: exact for every size, position and value."""

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

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from engine.wasm.binary.reader import PAGE_BYTES
from engine.wasm.execution.buffers import BUFFER_BYTES
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.runner import Guest, Runner
from engine.wasm.weave.modules import MAX_LIBRARY_PAGES
from engine.wasm.weave.weaver import library
from tests.engine.wasm.echo_guest import PAGES, Mode, echo_component
from tests.support.examples import examples, is_fuzzing
from tests.support.guest_client import Answer, Client

TEXT = bytes(range(32, 127)) * 32
RANDOM = random.Random(11).randbytes(200_000)
ALL = bytes(range(256)) * 300


class Echo:
    """The echoing guest; `ask` is one run of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, guest: Guest) -> None:
        self._loop = loop
        self.guest = guest

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


PERMIT = 65_536
KINDS: dict[str, tuple[dict[str, bool], bool]] = {
    "optimised": ({}, False),
    "baseline": ({}, True),
    "another-table": ({"direct": True}, False),
    "two-reallocs": ({"two_reallocs": True}, False),
}


@pytest.fixture(scope="module", params=KINDS)
def echo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Echo]:
    """The guest from each compiler, and in several shapes."""
    shape, fast = KINDS[request.param]
    with running(tmp_path_factory.mktemp("echo"), echo_component(**shape), fast=fast) as echo:
        yield echo


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Echo]:
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


def test_every_byte_value_at_every_block_position_round_trips(plain: Echo) -> None:
    body = b"".join(bytes([value]) * place + b"." for value in range(256) for place in range(57))
    same(plain.ask([body[i : i + 65_536] for i in range(0, len(body), 65_536)]), body)


def test_megabytes_round_trip(plain: Echo) -> None:
    dice = random.Random(5)
    pieces = [
        dice.randbytes(65_536) if dice.random() < 0.5 else (TEXT * 30)[: dice.randrange(65_536)]
        for _ in range(160)
    ]
    answer = plain.ask(pieces)
    same(answer, b"".join(pieces))
    assert answer.report.bytes_in == answer.report.bytes_out + 16
    assert max(map(len, answer.chunks)) > 32_768


@settings(derandomize=not is_fuzzing(), max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_arbitrary_bytes_round_trip(plain: Echo, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.binary(max_size=300) | st.text("abcé€", max_size=90).map(str.encode)))
    pieces += [bytes(data.draw(st.integers(0, 70_000))) + data.draw(st.binary(max_size=80))]
    most, carry = data.draw(st.integers(1, 70_000)), data.draw(st.integers(40, 70_000))
    mode = data.draw(st.sampled_from([Mode.CHECKED, Mode.EMPTY]))
    same(plain.ask(pieces, most, carry, data.draw(st.integers(1, 999)), mode), b"".join(pieces))


def test_permit_is_64_kib(echo: Echo) -> None:
    answer = echo.ask([], mode=Mode.PERMITS)
    assert struct.unpack("<2I", answer.body[3:]) == (PERMIT, PERMIT)


def test_write_above_permit_traps_and_sends_nothing(echo: Echo) -> None:
    answer = echo.ask([], mode=Mode.BEYOND_PERMIT)
    assert answer.report.outcome == "guest-failed"
    message = f"write of {PERMIT + 1} bytes where check-write permitted {PERMIT}"
    assert message in answer.report.detail
    assert answer.body == b""


def test_blocking_write_above_4096_bytes_traps(plain: Echo) -> None:
    for body in (TEXT * 4, RANDOM[:12_000]):
        answer = plain.ask([body], mode=Mode.BLOCKING, carry=4097)
        assert "blocking-write-and-flush of" in answer.report.detail
        assert "at most 4096 are allowed" in answer.report.detail


@pytest.mark.parametrize("first", [0x20, 0xFF])
def test_write_from_outside_memory_traps(echo: Echo, first: int) -> None:
    answer = echo.ask([], mode=Mode.BEYOND_MEMORY, carry=first)
    assert answer.report.outcome == "guest-failed" and answer.body == b""
    assert "memory" in answer.report.detail or "bounds" in answer.report.detail


def test_slow_client_applies_backpressure(plain: Echo) -> None:
    async def pause() -> None:
        await asyncio.sleep(0)

    pieces = [RANDOM[:60_000]] * 20
    answer = plain.ask(pieces, pause=pause)
    same(answer, b"".join(pieces))
    assert max(map(len, answer.chunks)) <= BUFFER_BYTES


def test_memory_of_the_library_counts_and_is_bounded(plain: Echo) -> None:
    small, large = (plain.ask(pieces).report.peak_memory for pieces in ([], [RANDOM[:60_000]] * 20))
    assert small is not None and large is not None
    least, most = (PAGES + library().pages) * PAGE_BYTES, (PAGES + MAX_LIBRARY_PAGES) * PAGE_BYTES
    assert least <= small <= large <= most


def test_memory_limit_of_a_guest_leaves_space_for_the_library(tmp_path: Path) -> None:
    with running(tmp_path, echo_component(), memory_mb=1) as echo:
        same(echo.ask([RANDOM]), RANDOM)


def test_slots_are_reusable(plain: Echo) -> None:
    for _ in range(30):
        same(plain.ask([RANDOM[:3000]]), RANDOM[:3000])
