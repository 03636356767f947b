"""Moves bodies over a keep-alive connection, in a process of its own: `python -m bench.transfer PORT [HOST]`.

Takes lines from standard input, `get SIZE COUNT`, `put SIZE COUNT` or `check SIZE`, and prints for each a
line: the bytes a second (10⁶) of COUNT transfers one after the other; "exact" when what is sent and what
comes are to the byte what they should be. Raw sockets, so that it costs the machine little.
"""

import select
import socket
import sys
import time

from bench.payload import BLOCK_SIZE, block

BLOCK = block()
_PIECES = 64
"""Blocks that are handed to the system at once."""


class Connection:
    """One HTTP/1.1 connection to a server on this machine."""

    def __init__(self, port: int, host: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._host = host.encode()
        self._view = memoryview(bytearray(1 << 20))
        self._unsent: list[bytes | memoryview] = []

    def request(self, method: bytes, path: bytes, body: list[bytes]) -> tuple[int, bytes]:
        """Send a request; return the response length and the body bytes that arrived with the head."""
        size = sum(map(len, body))
        head = b"%s %s HTTP/1.1\r\nhost: %s\r\ncontent-length: %d\r\n\r\n" % (method, path, self._host, size)
        self._unsent = [head, *body]
        self._send()
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._received()
        head, _, rest = received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"the answer was {received[:300]!r}")
        at = head.lower().index(b"content-length:")
        return int(head[at + 15 :].split(b"\r\n", 1)[0]), rest

    def _send(self) -> None:
        """Send what the system takes now."""
        while self._unsent:
            try:
                sent = self._socket.sendmsg(self._unsent[:_PIECES])
            except BlockingIOError:
                return
            while self._unsent and sent >= len(self._unsent[0]):
                sent -= len(self._unsent.pop(0))
            if sent:
                self._unsent[0] = memoryview(self._unsent[0])[sent:]

    def _receive(self, into: memoryview) -> int:
        """Wait for bytes and continue to send meanwhile: a server may respond while it still reads."""
        while True:
            try:
                count = self._socket.recv_into(into)
            except BlockingIOError:
                select.select([self._socket], [self._socket] if self._unsent else [], [])
                self._send()
                continue
            return count or sys.exit("the connection was closed")

    def _received(self) -> bytes:
        return self._view[: self._receive(self._view)].tobytes()

    def body(self, method: bytes, path: bytes, body: list[bytes]) -> bytes:
        """Return the whole body of an answer."""
        length, received = self.request(method, path, body)
        parts = [received]
        length -= len(received)
        while length:
            parts.append(self._received())
            length -= len(parts[-1])
        return b"".join(parts)

    def skip(self, path: bytes) -> None:
        """Receive an answer and look only at its length."""
        length, received = self.request(b"GET", path, [])
        length -= len(received)
        while length:
            length -= self._receive(self._view[: min(length, len(self._view))])


def main() -> None:
    for line in sys.stdin:
        # A connection for each line: servers close one that idles while others are measured.
        connection = Connection(int(sys.argv[1]), *(sys.argv[2:] or ["localhost"]))
        action, size, *count = line.split()
        blocks = [BLOCK] * (int(size) // BLOCK_SIZE)
        path, times = b"/" + size.encode(), int(count[0]) if count else 1
        if action == "check":
            content = b"".join(blocks)
            same = connection.body(b"GET", path, []) == content == connection.body(b"POST", b"/echo", blocks)
            print("exact" if same else "different", flush=True)
            continue
        began = time.perf_counter()
        for _ in range(times):
            if action == "get":
                connection.skip(path)
            elif connection.body(b"POST", path, blocks) != size.encode() + b"\n":
                sys.exit("another number of bytes came")
        print(f"{int(size) * times / (time.perf_counter() - began) / 1e6:.1f}", flush=True)


if __name__ == "__main__":
    main()
