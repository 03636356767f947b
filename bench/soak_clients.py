"""Clients of the soak test: ordinary, faulty and slow ones, and the guests that they request."""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from bench.service import DOMAIN, Serving

ANSWER_SECONDS = 60.0
SLOW_SECONDS = 3.0
KEYS = 40
"""Rows that each client writes again and again."""
UPLOAD = random.Random(1).randbytes(200_000)
MANIFEST = """\
[project]
name = "soak"
{check}
[resource.front]
lane = "static"
public = true
output = "site"
mounts = {{ "/v{version}/*" = "api" }}

[resource.api]
lane = "js"
public = true
workdir = "api"
run_limit_secs = 300
env = {{ VERSION = "{version}" }}

[resource.strict]
lane = "js"
public = true
workdir = "api"
run_limit_secs = 1

[resource.small]
lane = "js"
public = true
workdir = "api"
memory_limit_mb = 64
"""
SCHEMA = "create table counts (key text primary key, n integer not null);\n"
SOURCE = """\
import { tables } from '@svc/guest';

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const endless = 'with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) as n from n';

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
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/echo': return new Response(request.body);
      case '/events': return new Response(events(), { headers: { 'content-type': 'text/event-stream' } });
      case '/crash': throw new Error('crashed on purpose');
      case '/loop': for (;;);
      case '/hog': { const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)); }
      case '/big': return new Response(new Uint8Array(2_000_000));
      case '/log': console.log('a line'); console.error('another'); return new Response('logged\\n');
      case '/endless': return Response.json(await tables.query(endless));
      case '/rows': return Response.json(await tables.query('select key, n from counts'));
      case '/set': {
        const [key, n] = [url.searchParams.get('key'), Number(url.searchParams.get('n'))];
        await tables.exec`insert into counts values (${key}, ${n})
          on conflict (key) do update set n = max(n, excluded.n)`;
        return new Response('stored\\n');
      }
      default: return new Response(`hello ${process.env.VERSION}\\n`);
    }
  },
};
"""


class UnexpectedAnswer(Exception):
    """An answer that a client did not expect: its first bytes."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(repr(answer[:600]))


def expect(condition: bool, answer: bytes) -> None:
    """Raise UnexpectedAnswer unless a condition on an answer is true."""
    if not condition:
        raise UnexpectedAnswer(answer)


class Clients:
    """Clients of one service, each on connections of its own. `seen` counts what they met, by kind.

    `stored` has the last acknowledged number of each row, and `sent` the last one sent.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self.seen: Counter[str] = Counter()
        self.kills = 0
        """Raised by one before and after each kill, which excuses errors meanwhile."""
        self.stored: dict[str, int] = {}
        self.sent: dict[str, int] = {}

    async def _open(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._serving.port)
        writer.write(request)
        return reader, writer

    async def ask(self, path: str, *, body: bytes = b"", of: str = "api") -> bytes:
        """Return a whole response."""
        reader, writer = await self._open(request(path, body, of))
        try:
            return await asyncio.wait_for(reader.read(-1), ANSWER_SECONDS)
        finally:
            await leave(writer)

    async def version(self) -> int:
        """Return the version that is live. Raises ValueError for another response, as of a mixture."""
        answer = await self.ask("/")
        version = int(answer.rpartition(b"hello ")[2])
        if not (await self.ask(f"/v{version}/", of="front")).endswith(b"hello %d\n" % version):
            raise ValueError("front and API of different versions")
        return version

    async def count_wrong_rows(self) -> int:
        """Return how many rows have a number below the acknowledged or above the sent one."""
        rows = {
            row["key"]: row["n"] for row in json.loads((await self.ask("/rows")).partition(b"\r\n\r\n")[2])
        }
        return sum(not n <= rows.get(key, 0) <= self.sent[key] for key, n in self.stored.items())

    async def hello(self) -> None:
        answer = await self.ask("/")
        expect(b"hello " in answer[-10:], answer)

    async def store(self) -> None:
        key = f"{id(asyncio.current_task())}-{random.randrange(KEYS)}"
        n = self.sent[key] = self.sent.get(key, 0) + 1
        answer = await self.ask(f"/set?key={key}&n={n}")
        expect(answer.endswith(b"stored\n"), answer)
        self.stored[key] = n

    async def log(self) -> None:
        answer = await self.ask("/log")
        expect(answer.endswith(b"logged\n"), answer)

    async def echo(self) -> None:
        answer = await self.ask("/echo", body=UPLOAD)
        expect(b" 200 " in answer[:20] and len(answer) > len(UPLOAD), answer)

    async def crash(self) -> None:
        answer = await self.ask("/crash")
        expect(b" 500 " in answer[:20], answer)

    async def loop(self) -> None:
        answer = await self.ask("/loop", of="strict")
        expect(b" 504 " in answer[:20], answer)

    async def hog(self) -> None:
        """Request a guest that takes memory until it is stopped, on a busy machine by its time limit."""
        answer = await self.ask("/hog", of="small")
        expect(b"memory-limit" in answer or b"run-limit" in answer, answer)

    async def stream(self) -> None:
        """Read a few events, then disconnect."""
        reader, writer = await self._open(request("/events"))
        try:
            for number in range(random.randint(1, 20)):
                await asyncio.wait_for(reader.readuntil(b"data: %d\n" % number), ANSWER_SECONDS)
        finally:
            await leave(writer)

    async def leave_download(self) -> None:
        reader, writer = await self._open(request("/big"))
        await asyncio.wait_for(reader.readexactly(1000), ANSWER_SECONDS)
        await leave(writer)

    async def leave_upload(self) -> None:
        _, writer = await self._open(request("/echo", UPLOAD)[: len(UPLOAD) // 2])
        await leave(writer)

    async def leave_query(self) -> None:
        """Leave while SQL runs that would not end."""
        _, writer = await self._open(request("/endless"))
        await asyncio.sleep(0.3)
        await leave(writer)

    async def leave_at_once(self) -> None:
        _, writer = await self._open(request("/"))
        writer.transport.abort()

    async def slow_head(self) -> None:
        """Send a head byte by byte, then leave."""
        await self._send_slowly(b"", request("/"))

    async def slow_upload(self) -> None:
        """Send a body byte by byte, then leave."""
        message = request("/echo", UPLOAD)
        head = message.index(b"\r\n\r\n") + 4
        await self._send_slowly(message[:head], message[head:])

    async def _send_slowly(self, at_once: bytes, rest: bytes) -> None:
        _, writer = await self._open(at_once)
        try:
            for at in range(int(SLOW_SECONDS / 0.25)):
                writer.write(rest[at : at + 1])
                await asyncio.sleep(0.25)
        finally:
            await leave(writer)

    async def slow_download(self) -> None:
        """Read 20 kB per 100 ms, then leave."""
        reader, writer = await self._open(request("/big"))
        try:
            for _ in range(int(SLOW_SECONDS / 0.1)):
                await asyncio.wait_for(reader.readexactly(20_000), ANSWER_SECONDS)
                await asyncio.sleep(0.1)
        finally:
            await leave(writer)

    async def run(self, until: float) -> None:
        """Be one client after the other, until a time (monotonic, seconds)."""
        kinds: dict[Callable[[], Awaitable[None]], int] = {
            self.hello: 30,
            self.store: 20,
            self.log: 5,
            self.echo: 10,
            self.crash: 10,
            self.stream: 10,
            self.leave_download: 5,
            self.leave_upload: 5,
            self.leave_at_once: 5,
            self.leave_query: 1,
            self.slow_head: 2,
            self.slow_upload: 2,
            self.slow_download: 2,
            self.loop: 1,
            self.hog: 1,
        }
        while time.monotonic() < until:
            [visit] = random.choices([*kinds], [*kinds.values()])
            kind, kills = visit.__name__.replace("_", "-"), self.kills
            try:
                await visit()
                outcome, detail = kind, ""
            except (OSError, EOFError, TimeoutError, UnexpectedAnswer) as error:
                outcome, detail = f"wrong-{kind}-{type(error).__name__}", str(error)
            if outcome != kind:
                if kills != self.kills or kills % 2:
                    outcome = "killed"
                    await asyncio.sleep(0.2)
                else:
                    print(time.strftime("%X"), outcome, detail, flush=True)
            self.seen[outcome] += 1


def request(path: str, body: bytes = b"", of: str = "api") -> bytes:
    """Return a whole request."""
    head = (
        f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nhost: {of}--soak.{DOMAIN}\r\nconnection: close\r\n"
    )
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def leave(writer: asyncio.StreamWriter) -> None:
    """Close a connection from the client's side."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
