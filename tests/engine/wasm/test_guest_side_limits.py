"""Limits of the WASI library in a component: memory, handles, and calls at the wrong time."""

import random

import pytest

from engine.wasm.weave.modules import MAX_LIBRARY_PAGES
from tests.engine.wasm.build_library import STACK_BYTES
from tests.engine.wasm.library_guest import Response, answering, reading, received
from tests.engine.wasm.library_instance import HEAP, Host, LibraryInstance, Trapped, head

BINARY = bytes(range(256)) * 16
ROUNDS = 1000


def test_guest_that_calls_during_an_allocation_traps() -> None:
    def allocate(library: LibraryInstance) -> int:
        library.call("monotonic-clock/now")
        return HEAP

    host = Host(replies={"begin": lambda: head(environment=b"a\0b\0")})
    library = LibraryInstance(host, allocate=allocate)
    with pytest.raises(Trapped, match="a host function was called during an allocation"):
        library.call("get-environment")


def test_handles_are_limited_and_reused() -> None:
    library = LibraryInstance()
    handles = [library.call("subscribe-instant", when) for when in range(65_536)]
    assert handles == list(range(1, 65_537)) and library.pages < MAX_LIBRARY_PAGES
    library.drop("pollable", 7)
    assert library.call("subscribe-instant", 0) == 7
    with pytest.raises(Trapped, match=r"more than 65536 resources \(streams, fields, pollables\) at once"):
        library.call("subscribe-instant", 0)


@pytest.mark.slow
def test_pollables_of_a_stream_share_a_handle_until_the_last_is_dropped() -> None:
    host = Host()
    host.replies["read"] = lambda channel, most: received(b"more")
    library, stream = reading(host)
    handles = {library.call("input-stream.subscribe", stream) for _ in range(70_000)}
    assert len(handles) == 1
    [handle] = handles
    for _ in range(69_999):
        library.drop("pollable", handle)
    assert library.call("pollable.ready", handle) in (0, 1)
    library.drop("pollable", handle)
    with pytest.raises(Trapped, match="unknown handle index"):
        library.call("pollable.ready", handle)


def test_exhausted_memory_traps_with_its_reason() -> None:
    host = Host()

    def guest(library: LibraryInstance, response: Response) -> None:
        response.set()
        response.write(BINARY)
        for _ in range(200):
            fields = library.ok("fields.from-list", [("a", b"x" * 60_000)])
            library.call("outgoing-request.constructor", fields)

    with pytest.raises(Trapped, match="more streams, fields and pollables than fit into 4 MiB"):
        answering(host, guest)
    assert [name for name, *_ in host.calls] == ["send", "trap"]


def test_long_stream_does_not_grow() -> None:
    host, chance, sizes = Host(), random.Random(5), []
    host.replies["read"] = lambda channel, most: received(chance.randbytes(chance.randrange(1, 3000)))
    library, stream = reading(host)
    for _ in range(ROUNDS):
        response = Response(library, 0, ("x", b"v" * chance.randrange(1000)))
        response.write(chance.randbytes(chance.randrange(60_000)))
        library.ok("input-stream.read", stream, chance.randrange(1, 20_000))
        pollable = library.call("input-stream.subscribe", stream)
        library.call("pollable.block", pollable)
        library.drop("pollable", pollable)
        library.drop("output-stream", response.stream)
        library.drop("outgoing-body", response.body)
        library.drop("outgoing-response", response.handle)
        sizes.append(library.pages)
    assert sizes[-1] == sizes[ROUNDS // 2] <= 8


def test_unavailable_function_is_named() -> None:
    library = LibraryInstance()
    name = b"wasi:filesystem/types#[method]descriptor.read"
    for at in range(0, len(name), 8):
        library.core("unavailable", int.from_bytes(name[at : at + 8], "little", signed=False))
    with pytest.raises(Trapped, match=r"descriptor\.read is not available"):
        library.core("unavailable_end")


def test_guest_can_call_before_its_run() -> None:
    host = Host(replies={"begin": lambda: head(environment=b"early\0yes\0", wall=5_000_000_000)})
    library = LibraryInstance(host)
    assert library.call("get-environment") == [("early", "yes")]
    assert library.call("wall-clock/now") == (5, 2)
    assert library.run(head(environment=b"late\0yes\0")) > 0
    assert library.call("get-environment") == [("late", "yes")]


def test_large_response_heads_do_not_use_up_the_memory() -> None:
    host = Host()
    value = b"v" * 250_000
    host.replies["response"] = lambda channel: b"+200\0" + b"x\0%b\0" % value
    library = LibraryInstance(host)
    for _ in range(40):
        request = library.call("outgoing-request.constructor", library.call("fields.constructor"))
        future = library.ok("outgoing-handler/handle", request, None)
        _, (_, response) = library.call("future-incoming-response.get", future)
        headers = library.call("incoming-response.headers", response)
        assert library.call("fields.entries", headers) == [("x", value)]
        library.drop("fields", headers)
        library.drop("incoming-response", response)
        library.drop("future-incoming-response", future)
    assert library.pages < MAX_LIBRARY_PAGES // 2
    assert host.named("close") == [(channel, 2) for channel in range(1, 41)]


def test_stack_is_larger_than_needed() -> None:
    library = LibraryInstance(Host())
    library.call("get-random-bytes", 100)
    assert 0 < library.stack_used < STACK_BYTES // 2
