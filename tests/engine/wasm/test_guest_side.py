"""The WASI library in a component: what it does by itself, and which calls of the host it saves."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.wasm.capi.ascii_packing import MAX_PACKED_BYTES
from engine.wasm.weave.builder import DIRECT_INTERFACES
from engine.wasm.weave.weaver import library
from tests.conformance.canonical import flat
from tests.conformance.wit import Resource, functions, interfaces
from tests.engine.wasm.build_library import LIBRARY, build, version_section
from tests.engine.wasm.library_guest import Response, answering, reading, received
from tests.engine.wasm.library_instance import Exited, Host, LibraryInstance, Trapped, head
from tests.support.toolchains import rust_prefix

HEAD, COMPLETE = 1, 2
BINARY = bytes(range(256)) * 16
TEXT = b"plain text" * 409
ENCODED = "200\0content-type\0text/plain\0x\0ä latin-1\0".encode()
MAX_BINARY_BYTES = 90_000


# -- interfaces --------------------------------------------------------------------------------------------


def test_functions_and_types_are_those_of_wasi() -> None:
    names = {0x7F: "i32", 0x7E: "i64"}
    exported = {
        key.decode(): ([names[each] for each in kind.parameters], [names[each] for each in kind.results])
        for key, kind in library().functions.exports.items()
    }
    expected = {}
    for function in functions().values():
        parameters = [core for _, kind in function.parameters for core in flat(kind)]
        results = flat(function.result) if function.result else []
        if len(results) > 1:
            parameters, results = [*parameters, "i32"], []
        if function.interface not in DIRECT_INTERFACES:
            expected[function.key] = parameters, results
    resources = {
        name
        for interface in interfaces().values()
        for name, kind in interface.types.items()
        if isinstance(kind, Resource)
    }
    expected |= {f"drop#{name}": (["i32"], []) for name in resources}
    assert expected.items() <= exported.items()
    assert {key for key in exported if "#" in key and not key.startswith("drop#")} <= expected.keys()


def test_binary_has_no_paths_and_is_small() -> None:
    binary = LIBRARY.read_bytes()
    assert b".rs\0" not in binary and b"/library/" not in binary and b"panicked" not in binary
    assert len(binary) < MAX_BINARY_BYTES


@pytest.mark.slow(seconds=20)
def test_binary_is_what_the_sources_build(tmp_path: Path, cache: Path) -> None:
    prefix = rust_prefix(cache)
    rustc = str(prefix / "bin" / "rustc") if (prefix / "complete").exists() else shutil.which("rustc")
    if rustc is None:
        pytest.skip("no rustc")
    if not LIBRARY.read_bytes().endswith(version_section(rustc)):
        pytest.skip("another version of rustc built the library")
    build(tmp_path / "library.wasm", rustc)
    assert (tmp_path / "library.wasm").read_bytes() == LIBRARY.read_bytes()


# -- the response ------------------------------------------------------------------------------------------

ORDERS = ["set write finish", "write set finish", "write finish set", "set write", "write set"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("content", [TEXT, BINARY], ids=["text", "bytes"])
def test_small_answer_is_one_host_call(order: str, content: bytes) -> None:
    host = Host()

    def guest(library: LibraryInstance, response: Response) -> None:
        for step in order.split():
            if step == "write":
                response.write(content)
            else:
                getattr(response, step)()

    flags = HEAD | COMPLETE if "finish" in order else HEAD
    assert answering(host, guest) == [("send", 1, flags, ENCODED, content)]


def test_blocking_write_of_the_declared_length_is_one_host_call() -> None:
    host = Host()

    def handle(library: LibraryInstance, request: int, outparam: int) -> None:
        response = Response(library, outparam, ("content-length", b"4"))
        response.set()
        library.ok("output-stream.blocking-write-and-flush", response.stream, b"body")
        assert len(host.calls) == 1
        response.finish()

    LibraryInstance(host, handle).run(head())
    assert host.calls == [("send", 1, HEAD | COMPLETE, b"200\0content-length\x004\0", b"body")]


@pytest.mark.parametrize("last", [10_000, 5_535])
def test_body_of_declared_length_is_complete_with_its_last_bytes(last: int) -> None:
    host = Host()

    def handle(library: LibraryInstance, request: int, outparam: int) -> None:
        response = Response(library, outparam, ("content-length", b"%d" % (60_000 + last)))
        response.write(b"x" * 60_000)
        response.write(b"y" * last)
        response.set()
        response.finish()

    LibraryInstance(host, handle).run(head())
    assert b"".join(call[4] for call in host.calls) == b"x" * 60_000 + b"y" * last
    assert [call[2] & COMPLETE for call in host.calls][:-1] == [0] * (len(host.calls) - 1)
    assert host.calls[-1][2] == HEAD | COMPLETE


def test_answer_without_body_is_one_host_call() -> None:
    host = Host()

    def handle(library: LibraryInstance, request: int, outparam: int) -> None:
        response = library.call("outgoing-response.constructor", library.call("fields.constructor"))
        library.call("outgoing-response.set-status-code", response, 204)
        library.call("response-outparam.set", outparam, ("ok", response))

    LibraryInstance(host, handle).run(head())
    assert host.calls == [("send", 1, HEAD | COMPLETE, b"204\0", b"")]


@pytest.mark.parametrize(
    ("step", "called"),
    [
        (lambda library, response: response.write(b"more"), []),
        (lambda library, response: library.ok("output-stream.flush", response.stream), []),
        (
            lambda library, response: library.call("pollable.block", library.call("subscribe-instant", 9999)),
            ["wait"],
        ),
        (lambda library, response: response.finish(), []),
    ],
    ids=["write", "flush", "wait", "finish"],
)
def test_first_bytes_leave_with_the_next_step(
    step: Callable[[LibraryInstance, Response], None], called: list[str]
) -> None:
    host = Host()

    def guest(library: LibraryInstance, response: Response) -> None:
        response.set()
        response.write(b"first")
        assert host.calls == []
        step(library, response)
        assert [name for name, *_ in host.calls] == ["send", *called]
        assert host.calls[0][4][:5] == b"first"

    answering(host, guest)


def test_later_bytes_leave_at_once() -> None:
    host = Host()

    def guest(library: LibraryInstance, response: Response) -> None:
        response.set()
        for part in (b"one", b"two", BINARY, TEXT):
            response.write(part)
        response.finish()

    calls = answering(host, guest)
    assert [call[4] for call in calls] == [b"onetwo", BINARY, TEXT, b""]
    assert [call[2] for call in calls] == [HEAD, 0, 0, COMPLETE]


@pytest.mark.parametrize("end", ["trap", "exit"])
def test_first_bytes_leave_before_a_trap_and_an_exit(end: str) -> None:
    host = Host()

    def guest(library: LibraryInstance, response: Response) -> None:
        response.set()
        response.write(b"first")
        library.call("exit-with-code", 7) if end == "exit" else library.call("poll", [])

    with pytest.raises(Trapped if end == "trap" else Exited):
        answering(host, guest)
    assert [name for name, *_ in host.calls] == ["send", end]


def test_unsent_body_above_its_buffer_is_sent_without_head() -> None:
    host = Host()
    host.replies["send"] = lambda channel, flags, text, body: 262_144 - len(body) | 1000 << 20

    def guest(library: LibraryInstance, response: Response) -> None:
        for _ in range(3):
            response.write(b"x" * 30_000)
        response.set()
        response.finish()

    calls = answering(host, guest)
    assert [(call[2], len(call[4])) for call in calls] == [(0, 60_000), (HEAD | COMPLETE, 30_000)]


@pytest.mark.parametrize("size", [1, 55, 56, 57, 4095, 4096, 4097, 65_535, 65_536])
def test_bytes_cross_unchanged_in_every_size(size: int) -> None:
    content = random.Random(size).randbytes(size)
    host = Host()

    def guest(library: LibraryInstance, response: Response) -> None:
        response.set()
        library.ok("output-stream.flush", response.stream)
        response.write(content)

    assert answering(host, guest)[1][4] == content


# -- input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [TEXT, BINARY], ids=["text", "bytes"])
def test_small_reads_share_a_host_call(content: bytes) -> None:
    host = Host()
    host.replies["read"] = lambda channel, most: received(content)
    library, stream = reading(host)
    parts = [library.ok("input-stream.read", stream, 1000) for _ in range(4)]
    assert b"".join(parts) == content[:4000] and host.named("read") == [(0, MAX_PACKED_BYTES)]


@pytest.mark.parametrize("size", [1, 55, 56, 57, 16_384, 65_536])
def test_large_reads_go_to_the_guest(size: int) -> None:
    host = Host()
    content = random.Random(size).randbytes(size)
    host.replies["read"] = lambda channel, most: received(content)
    library, stream = reading(host)
    assert library.ok("input-stream.read", stream, 1 << 40) == content


def test_end_known_with_the_last_bytes_needs_no_call() -> None:
    host = Host()
    host.replies["read"] = lambda channel, most: received(b"all", 1)
    library, stream = reading(host)
    assert library.ok("input-stream.blocking-read", stream, 10) == b"all"
    assert library.call("input-stream.blocking-read", stream, 10) == ("err", "closed")
    assert library.call("pollable.ready", library.call("input-stream.subscribe", stream)) == 1
    library.drop("input-stream", stream)
    assert [name for name, *_ in host.calls] == ["read"]


# -- polls and clocks --------------------------------------------------------------------------------------


def test_poll_asks_once_for_each_source_and_for_the_client() -> None:
    host = Host()
    host.replies["wait"] = lambda sources, deadline: (5000, b"10")

    def guest(library: LibraryInstance, response: Response) -> None:
        response.set()
        response.write(b"first")
        library.ok("output-stream.flush", response.stream)
        body = library.ok("incoming-request.consume", 1)
        stream = library.ok("incoming-body.stream", body)
        inputs = [library.call("input-stream.subscribe", stream) for _ in range(3)]
        timers = [library.call("subscribe-instant", when) for when in (9000, 7000, 8000)]
        host.calls.clear()
        assert library.call("poll", [inputs[0], *timers, *inputs[1:]]) == [0, 4, 5]

    def handle(library: LibraryInstance, request: int, outparam: int) -> None:
        guest(library, Response(library, outparam))

    LibraryInstance(host, handle).run(head(body=True))
    assert host.calls == [("wait", b"r0 |w1 ", 7000)]


def test_poll_of_ready_sources_asks_for_the_others() -> None:
    host = Host()
    host.replies["ready"] = lambda sources: (6000, b"1")
    library, stream = reading(host)
    pollables = [library.call("subscribe-instant", when) for when in (1, 5000, 9000)]
    pollables.append(library.call("input-stream.subscribe", stream))
    assert library.call("poll", pollables) == [0, 1, 3]
    assert library.call("poll", pollables) == [0, 1, 3]
    assert host.calls == [("ready", b"r0 ")]


def test_disconnect_that_a_wait_reports_closes_the_response() -> None:
    host = Host()
    host.replies["wait"] = lambda sources, deadline: (deadline, b"x")

    def guest(library: LibraryInstance, response: Response) -> None:
        response.set()
        response.write(b"first")
        library.call("pollable.block", library.call("subscribe-instant", 9999))
        assert library.call("output-stream.check-write", response.stream)[1] == "closed"
        assert library.call("output-stream.write", response.stream, b"")[1] == "closed"

    assert [name for name, *_ in answering(host, guest)] == ["send", "wait"]


def test_clock_is_that_of_the_last_host_call_and_advances_at_each_look() -> None:
    host = Host()
    library = LibraryInstance(host)
    times = [library.call("monotonic-clock/now") for _ in range(63)]
    assert times == list(range(2, 65)) and host.named("now") == []
    assert library.call("monotonic-clock/now") == 1001
    assert library.call("wall-clock/now") == (0, 1002) and len(host.named("now")) == 1


# -- random numbers ----------------------------------------------------------------------------------------


def chacha(key: bytes, counter: int) -> bytes:
    """Return a block of ChaCha20 with a counter of 64 bits (RFC 8439 2.3)."""

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for first, second, third, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[first] = (state[first] + state[second]) & 0xFFFFFFFF
            mixed = state[third] ^ state[first]
            state[third] = (mixed << bits | mixed >> 32 - bits) & 0xFFFFFFFF

    constants = struct.unpack("<4I", b"expand 32-byte k")
    initial = [*constants, *struct.unpack("<8I", key), counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    state = list(initial)
    for _ in range(10):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for diagonal in range(4):
            quarter(diagonal, 4 + (diagonal + 1) % 4, 8 + (diagonal + 2) % 4, 12 + (diagonal + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(state, initial, strict=True)))


def test_random_numbers_are_chacha20() -> None:
    library = LibraryInstance()
    blocks = [chacha(bytes(range(32)), counter) for counter in range(5)]
    assert library.call("get-random-bytes", 130) == (blocks[0] + blocks[1] + blocks[2])[:130]
    assert library.call("get-random-u64") & (1 << 64) - 1 == struct.unpack("<Q", blocks[3][:8])[0]
    assert library.call("insecure-seed") == struct.unpack("<QQ", blocks[4][:16])
