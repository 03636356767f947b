"""Guests of the WASI library in an instance of its own, call by call."""

import ctypes
from collections.abc import Callable
from typing import Any

from engine.wasm.capi.ascii_packing import pack
from tests.engine.wasm.library_instance import Host, LibraryInstance, head

FIELDS = [("content-type", b"text/plain"), ("x", b"\xe4 latin-1")]


class Response:
    """A response of the guest; `set` makes it the run's."""

    def __init__(self, library: LibraryInstance, outparam: int, *fields: tuple[str, bytes]) -> None:
        self._library, self._outparam = library, outparam
        self.handle = library.call(
            "outgoing-response.constructor", library.ok("fields.from-list", list(fields))
        )
        self.body = library.ok("outgoing-response.body", self.handle)
        self.stream = library.ok("outgoing-body.write", self.body)

    def set(self) -> None:
        self._library.call("response-outparam.set", self._outparam, ("ok", self.handle))

    def write(self, data: bytes) -> None:
        """Write within the permit of a check-write."""
        assert self._library.ok("output-stream.check-write", self.stream) >= len(data)
        self._library.ok("output-stream.write", self.stream, data)

    def finish(self) -> None:
        self._library.drop("output-stream", self.stream)
        self._library.ok("outgoing-body.finish", self.body, None)


def answering(host: Host, guest: Callable[[LibraryInstance, Response], None]) -> list[tuple[Any, ...]]:
    """Run a guest that makes a response; return the calls of the host."""

    def handle(library: LibraryInstance, request: int, outparam: int) -> None:
        guest(library, Response(library, outparam, *FIELDS))

    LibraryInstance(host, handle).run(head())
    return host.calls


def reading(host: Host) -> tuple[LibraryInstance, int]:
    """Return an instance with a stream of the request body."""
    streams = []

    def handle(library: LibraryInstance, request: int, outparam: int) -> None:
        body = library.ok("incoming-request.consume", request)
        streams.append(library.ok("incoming-body.stream", body))

    library = LibraryInstance(host, handle)
    library.run(head(body=True))
    return library, streams[0]


def received(data: bytes, state: int = 0) -> tuple[bytes, int, int]:
    """Return bytes as the host returns them."""
    if data.isascii():
        return data, len(data), state
    at, size = pack(data)
    return ctypes.string_at(at, size), len(data), state
