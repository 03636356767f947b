"""Soak test: minutes of normal and hostile traffic, then a comparison of the server's resources.

Short answers, echoed uploads, event streams, crashes, loops over the run limit, memory over its limit, and
clients that leave in the middle of a download or an upload. Memory, open files and threads are compared
between two moments without connections: after the warm-up, and at the end.
`python -m bench.soak SECONDS`
"""

import asyncio
import contextlib
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.memory import Held, held
from bench.processes import svc_dev_process, write_results

SECONDS = 600.0
WARM_UP = 0.25
"""The share of the time after which the first moment comes."""
CLIENTS = 24
REST_SECONDS = 3.0
TELL_SECONDS = 15.0
ANSWER_SECONDS = 60.0
MIB = 1 << 20
SLACK = 8 * MIB
GROWTH = 0.05
MANIFEST = """\
[project]
name = "soak"

[resource.api]
lane = "js"
public = true

[resource.strict]
lane = "js"
public = true
run_limit_secs = 1

[resource.small]
lane = "js"
public = true
memory_limit_mb = 64
"""
SOURCE = """\
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function events() {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async start(controller) {
      for (let i = 0; i < 1000; i++) {
        controller.enqueue(encoder.encode(`data: ${i}\\n\\n`));
        await sleep(50);
      }
      controller.close();
    },
  });
}

export default {
  async fetch(request) {
    switch (new URL(request.url).pathname) {
      case '/echo': return new Response(request.body);
      case '/events': return new Response(events(), { headers: { 'content-type': 'text/event-stream' } });
      case '/crash': throw new Error('crashed on purpose');
      case '/loop': for (;;);
      case '/hog': { const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)); }
      case '/big': return new Response(new Uint8Array(2_000_000));
      case '/log': console.log('a line'); console.error('another'); return new Response('logged\\n');
      default: return new Response('hello\\n');
    }
  },
};
"""
UPLOAD = random.Random(1).randbytes(200_000)


class Visitors:
    """Clients of one server, each on a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.seen: Counter[str] = Counter()

    async def _open(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(request)
        return reader, writer

    async def ask(self, path: str, *, body: bytes = b"", of: str = "api") -> bytes:
        """Ask, read the whole answer, and return it."""
        reader, writer = await self._open(request(path, body, of))
        try:
            return await asyncio.wait_for(reader.read(-1), ANSWER_SECONDS)
        finally:
            await leave(writer)

    async def hello(self) -> None:
        self.check("hello", (await self.ask("/")).endswith(b"hello\n"))

    async def log(self) -> None:
        self.check("log", (await self.ask("/log")).endswith(b"logged\n"))

    async def echo(self) -> None:
        answer = await self.ask("/echo", body=UPLOAD)
        self.check("echo", b" 200 " in answer[:20] and len(answer) > len(UPLOAD))

    async def crash(self) -> None:
        self.check("crash", b" 500 " in (await self.ask("/crash"))[:20])

    async def loop(self) -> None:
        self.check("loop", b" 504 " in (await self.ask("/loop", of="strict"))[:20])

    async def hog(self) -> None:
        self.check("hog", b"memory-limit" in await self.ask("/hog", of="small"))

    async def stream(self) -> None:
        """Read a few events, then disconnect."""
        reader, writer = await self._open(request("/events"))
        try:
            for number in range(random.randint(1, 20)):
                await asyncio.wait_for(reader.readuntil(b"data: %d\n" % number), ANSWER_SECONDS)
            self.check("stream", True)
        finally:
            await leave(writer)

    async def leave_download(self) -> None:
        reader, writer = await self._open(request("/big"))
        await asyncio.wait_for(reader.readexactly(1000), ANSWER_SECONDS)
        await leave(writer)
        self.check("leave-download", True)

    async def leave_upload(self) -> None:
        _, writer = await self._open(request("/echo", UPLOAD)[: len(UPLOAD) // 2])
        await leave(writer)
        self.check("leave-upload", True)

    async def leave_at_once(self) -> None:
        _, writer = await self._open(request("/"))
        writer.transport.abort()
        self.check("leave-at-once", True)

    def check(self, kind: str, right: bool) -> None:
        self.seen[kind if right else f"wrong-{kind}"] += 1

    async def go_on(self, until: float) -> None:
        """Be one client after the other."""
        kinds: dict[Callable[[], Awaitable[None]], int] = {
            self.hello: 30,
            self.log: 5,
            self.echo: 10,
            self.crash: 10,
            self.stream: 10,
            self.leave_download: 5,
            self.leave_upload: 5,
            self.leave_at_once: 5,
            self.loop: 1,
            self.hog: 1,
        }
        while time.monotonic() < until:
            [visit] = random.choices([*kinds], [*kinds.values()])
            try:
                await visit()
            except (OSError, EOFError, TimeoutError) as error:
                self.seen[f"wrong-{type(error).__name__}"] += 1


def request(path: str, body: bytes = b"", of: str = "api") -> bytes:
    """Return a whole request."""
    head = (
        f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nhost: {of}--soak.localhost\r\nconnection: close\r\n"
    )
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def leave(writer: asyncio.StreamWriter) -> None:
    """Close a connection from the client's side."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def crowd(visitors: Visitors, pid: int, seconds: float) -> Held:
    """Run all clients for `seconds`; return the server's resources after they disconnected."""
    until = time.monotonic() + seconds
    clients = asyncio.gather(*(visitors.go_on(until) for _ in range(CLIENTS)))
    while not clients.done():
        await asyncio.wait([clients], timeout=TELL_SECONDS)
        tell(held(pid), visitors)
    await clients
    await asyncio.sleep(REST_SECONDS)
    return held(pid)


def tell(now: Held, visitors: Visitors) -> None:
    """Print how it stands."""
    requests = sum(visitors.seen.values())
    print(
        f"requests={requests} rss={now.rss / MIB:.0f} own={now.own / MIB:.0f}",
        f"fds={now.files} threads={now.threads}",
        flush=True,
    )


def flat(first: Held, last: Held) -> bool:
    """Return whether resources did not grow, apart from some memory."""
    return (
        last.rss <= first.rss * (1 + GROWTH) + SLACK
        and last.files <= first.files
        and last.threads <= first.threads
    )


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="svc-soak-") as folder:
        project = Path(folder)
        (project / "svc.toml").write_text(MANIFEST)
        (project / "index.js").write_text(SOURCE)
        with svc_dev_process(project, "--release") as (port, pid):
            visitors = Visitors(port)
            first = asyncio.run(crowd(visitors, pid, seconds * WARM_UP))
            tell(first, visitors)
            last = asyncio.run(crowd(visitors, pid, seconds * (1 - WARM_UP)))
    seen, requests = visitors.seen, sum(visitors.seen.values())
    print(*(f"{kind}={count}" for kind, count in sorted(seen.items())))
    right = flat(first, last) and not any(kind.startswith("wrong") for kind in seen)
    write_results(
        "soak",
        {"requests": requests, "rss": [first.rss, last.rss], "flat": right, "processors": os.cpu_count()},
    )
    print(
        f"soak requests={requests} rss={first.rss / MIB:.0f}->{last.rss / MIB:.0f}",
        f"fds={first.files}->{last.files} threads={first.threads}->{last.threads}",
        f"flat={'yes' if right else 'no'}",
    )
    if not right:
        sys.exit(1)


if __name__ == "__main__":
    main()
