"""How much heavy guests delay a light one: 99th percentile of a hello, beside guests that are heavy or not.

In one project, a heavy guest computes and never calls its host, or asks its host for the time without end
(host calls are Python, and share the interpreter with the event loop). On a service, the heavy guests are of
another project: 900 streams of ten HTTP/2 connections with windows of zero, floods of unknown HTTP/2
settings or of large heads from another process, 40 requests at once that take 80 MB each of a memory budget
of 1 GiB, two that derive keys by scrypt for minutes, or statements of a user without end, which count,
collect, sort and search in values, four at a time. Rounds are interleaved, so that all sides see the same
machine; the median of their ratios counts.
"""

import asyncio
import contextlib
import multiprocessing
import os
import socket
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from statistics import median, quantiles

import h2.config
import h2.connection
import h2.settings
from hpack import Encoder, NeverIndexedHeaderTuple
from httpx import AsyncClient

from bench.processes import svc_dev, write_results
from bench.service import DOMAIN, Serving, bundle, deploy
from engine.cancellation import cancel
from engine.wasm.execution.memory_budget import ResidentSet

ROUNDS = 5
REQUESTS = 600
PAUSE = 0.004
"""Seconds between an answer and the next request: the machine has time to spare."""
TARGET = 3.0
CONNECTIONS, STREAMS = 10, 90
GUESTS = 40
BUDGET_MIB = 1024
RSS_SECONDS = 0.02
NUMBERS = "with recursive n(i) as (select 1 union all select i + 1 from n)"
STATEMENTS = (
    f"{NUMBERS} select count(*) as n from n",
    f"{NUMBERS} select json_group_array(i % 2) as n from n where i < 3000000",
    f"{NUMBERS} select i from n order by -i",
    f"{NUMBERS} select sum(instr(x, y)) as n from n,"
    " (select hex(zeroblob(20000)) as x, hex(zeroblob(10000)) || 1 as y)",
)
MANIFEST = '[project]\nname = "{name}"\n\n[resource.web]\nlane = "js"\npublic = true\nrun_limit_secs = 900\n'
SOURCE = """\
import { scryptSync } from 'node:crypto';

const piece = new Uint8Array(65536);

export default {
  async fetch(request) {
    const path = new URL(request.url).pathname;
    if (path === '/loop') for (;;);
    if (path === '/calls') for (;;) performance.now();
    if (path === '/scrypt') {
      return new Response(scryptSync('x', 'y', 65536, { N: 2, r: 1, p: 400000, maxmem: 1e9 }).length);
    }
    if (path === '/large') {
      let left = 320;
      return new Response(new ReadableStream({
        pull(controller) {
          if (left-- > 0) controller.enqueue(piece.slice());
          else controller.close();
        },
      }));
    }
    if (path === '/memory') {
      const filled = Array.from({ length: 20 }, () => new Uint8Array(4 << 20).fill(1));
      await new Promise((resolve) => setTimeout(resolve, 300));
      return new Response(filled.length === 20 ? 'full\\n' : '');
    }
    return new Response('hello\\n');
  },
};
"""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
Heavy = Callable[[], AbstractAsyncContextManager[None]]


def _request(path: str, host: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()


@contextlib.asynccontextmanager
async def endless(port: int, path: str, host: str = "localhost", requests: int = 1) -> AsyncIterator[None]:
    """Run guests that do not end, until the block exits."""
    writers = []
    for _ in range(requests):
        writers.append((await asyncio.open_connection("127.0.0.1", port))[1])
        writers[-1].write(_request(path, host))
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        for writer in writers:
            writer.close()
        await asyncio.sleep(1.5)


@contextlib.asynccontextmanager
async def statements(api: AsyncClient) -> AsyncIterator[None]:
    """Run statements of a user, and each again after its answer, until the block exits."""

    async def run(sql: str) -> None:
        while True:
            await api.post("/v1/projects/heavy/sql", json={"sql": sql})

    running = [asyncio.create_task(run(sql)) for sql in STATEMENTS]
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        await cancel(running)
        await asyncio.sleep(1.5)


@contextlib.asynccontextmanager
async def closed_windows(port: int, host: str) -> AsyncIterator[None]:
    """Request 20 MiB on many HTTP/2 streams and let the server send nothing, until the block exits."""
    writers = []
    for _ in range(CONNECTIONS):
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        connection.initiate_connection()
        connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        for number in range(STREAMS):
            head = {":method": "GET", ":path": "/large", ":scheme": "http", ":authority": host}
            connection.send_headers(1 + 2 * number, list(head.items()), end_stream=True)
        writers.append((await asyncio.open_connection("127.0.0.1", port))[1])
        writers[-1].write(connection.data_to_send())
    try:
        yield
    finally:
        for writer in writers:
            writer.close()
        await asyncio.sleep(5)


def settings_flood() -> bytes:
    """Return an HTTP/2 connection's frames with millions of unknown settings."""
    settings = b"".join(struct.pack(">HI", 0x5000 + number, number) for number in range(60))
    return _PREFACE + _frame(4, 0, 0, settings) * 20_000


def heads_flood(host: str) -> bytes:
    """Return an HTTP/2 connection's frames with requests of large heads, compressed by Huffman codes."""
    fields = {":method": "GET", ":path": "/", ":scheme": "http", ":authority": host, "x-large": "a" * 24_000}
    never_indexed = [NeverIndexedHeaderTuple(*each) for each in fields.items()]
    block = Encoder().encode(never_indexed, huffman=True)
    return _PREFACE + b"".join(_frame(1, 5, 1 + 2 * number, block) for number in range(500))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _send_without_end(port: int, content: bytes) -> None:
    os.nice(19)
    while True:
        # A source of its own: the limits by address are not those of the other clients.
        source = ("127.0.0.2", 0)
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 5, source) as flooding,
        ):
            flooding.sendall(content)


@contextlib.asynccontextmanager
async def flood(port: int, content: bytes) -> AsyncIterator[None]:
    """Send the content on one connection after the other, until the block exits."""
    process = multiprocessing.get_context("spawn").Process(target=_send_without_end, args=(port, content))
    process.start()
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        process.kill()
        process.join()
        await asyncio.sleep(0.5)


class FullMemory:
    """Requests of much memory, repeated until the block exits; `peak` is the service's resident set."""

    def __init__(self, port: int, host: str, process: int) -> None:
        self._port, self._host, self._resident = port, host, ResidentSet(process)
        self.peak = self.answered = self.refused = 0

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        """Send 40 requests at once, and each again after its response."""
        running = True

        async def ask() -> None:
            while running:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(_request("/memory", self._host))
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"HTTP/1.1 200"):
                    assert await reader.readexactly(5) == b"full\n"
                    self.answered += 1
                else:
                    assert head.startswith(b"HTTP/1.1 503"), head
                    self.refused += 1
                writer.close()

        async def watch() -> None:
            while True:
                self.peak = max(self.peak, self._resident.read())
                await asyncio.sleep(RSS_SECONDS)

        watching = asyncio.create_task(watch())
        asking = asyncio.gather(*[ask() for _ in range(GUESTS)])
        try:
            yield
        finally:
            running = False
            await asking
            watching.cancel()
            await asyncio.sleep(1)


async def latencies(port: int, host: str) -> list[float]:
    """Ask for the hello, one request at a time; return what each took in milliseconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        writer.write(_request("/", host))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        await reader.readuntil(b"hello\n")
        times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE)
    writer.close()
    return times


async def measure(port: int, host: str, heavy: dict[str, Heavy]) -> dict[str, list[float]]:
    """Return the 99th percentile of each round, by what ran beside it."""
    await latencies(port, host)
    cases: dict[str, Heavy] = {"idle": contextlib.nullcontext, **heavy}
    found: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(ROUNDS):
        for name, beside in cases.items():
            async with beside():
                found[name].append(quantiles(await latencies(port, host), n=100)[98])
        text = "  ".join(f"{name} {values[-1]:.1f} ms" for name, values in found.items())
        print(f"round {number + 1}: {text}", flush=True)
    return found


def write_project(folder: Path, name: str) -> Path:
    """Write a project of one resource."""
    project = folder / name
    project.mkdir()
    (project / "svc.toml").write_text(MANIFEST.format(name=name))
    (project / "index.js").write_text(SOURCE)
    return project


def in_one_project(folder: Path) -> dict[str, list[float]]:
    """Measure beside a guest of the same project."""
    with svc_dev(write_project(folder, "dev"), "--release") as port:
        cases = {"compute": "/loop", "calls": "/calls"}
        heavy: dict[str, Heavy] = {
            name: lambda path=path: endless(port, path)  # type: ignore[misc]
            for name, path in cases.items()
        }
        return asyncio.run(measure(port, "localhost", heavy))


def beside_another_project(folder: Path) -> tuple[dict[str, list[float]], FullMemory]:
    """Measure beside guests of another project."""
    serving = Serving(folder / "data", "--memory", str(BUDGET_MIB))
    serving.start()
    try:
        with serving.client() as client:
            for name in ("light", "heavy"):
                deploy(client, bundle(write_project(folder, name)))
        assert serving.process is not None
        port, host = serving.port, f"web--heavy.{DOMAIN}"
        memory = FullMemory(port, host, serving.process.pid)
        headers = {"authorization": f"Bearer {serving.token}"}
        api = AsyncClient(base_url=serving.control, headers=headers, timeout=60)
        heavy: dict[str, Heavy] = {
            "windows": lambda: closed_windows(port, host),
            "settings": lambda: flood(port, settings_flood()),
            "heads": lambda: flood(port, heads_flood(host)),
            "memory": memory,
            "scrypt": lambda: endless(port, "/scrypt", host, 2),
            "statements": lambda: statements(api),
        }
        return asyncio.run(measure(port, f"web--light.{DOMAIN}", heavy)), memory
    finally:
        serving.stop()


def ratios(found: dict[str, list[float]]) -> dict[str, float]:
    """Return the median ratio to the idle service, by what ran beside it."""
    return {
        name: median(ours / idle for ours, idle in zip(values, found["idle"], strict=True))
        for name, values in found.items()
        if name != "idle"
    }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        one = in_one_project(Path(folder))
        other, memory = beside_another_project(Path(folder))
    both = ratios(one) | ratios(other)
    medians = {f"{name}_p99_ms": median(values) for name, values in (other | one).items()}
    peak = memory.peak / (1 << 20)
    write_results("fairness", {**both, **medians, "memory_rss_mib": peak, "memory_budget_mib": BUDGET_MIB})
    text = " ".join(f"{name}={ratio:.2f}" for name, ratio in both.items())
    print(f"fairness {text} times the p99 of an idle service (target: less than {TARGET:g})")
    text = f"{memory.answered} requests of 80 MB answered, {memory.refused} refused after 30 s"
    print(f"memory: {text}, peak RSS {peak:.0f} of {BUDGET_MIB} MiB")


if __name__ == "__main__":
    main()
