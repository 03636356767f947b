"""A thousand event streams of one event a second on one process: how soon, how punctual, how much memory.

All streams are opened at once and read for half a minute. An event carries the time at which its guest meant
to send it; the client runs on the same clock, so the difference is its lateness. The delay of first events
is the CPU time for a thousand starts plus the machine's other load, so that load is measured too.
"""

import asyncio
import contextlib
import re
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.memory import Held, memory_of
from bench.processes import svc_dev_process, write_results

STREAMS = 1000
SECONDS = 30
FIRST_SECONDS = 60
MANIFEST = (
    '[project]\nname = "ticks"\n\n[resource.web]\nlane = "{lane}"\npublic = true\nrun_limit_secs = 300\n'
)
SOURCE = """\
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export default {
  fetch(request) {
    const encoder = new TextEncoder();
    const body = new ReadableStream({
      async start(controller) {
        for (let at = Date.now(); ; at += 1000) {
          await sleep(Math.max(0, at - Date.now()));
          controller.enqueue(encoder.encode(`data: ${at}\\n\\n`));
        }
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  },
};
"""
_EVENT = re.compile(rb"data: (\d+)\n\n")


@dataclass
class Received:
    """Results of all clients: seconds to the first event, and the lateness of each later one.

    `started` is set when every one of `streams` has had its first event or is lost.
    """

    streams: int
    firsts: list[float] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    failed: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def check(self) -> None:
        """Set `started` once every stream has started."""
        if len(self.firsts) + self.failed >= self.streams:
            self.started.set()


class Client(asyncio.Protocol):
    """One stream."""

    def __init__(self, received: Received, port: int) -> None:
        self._received = received
        self._began = time.time()
        self._request = f"GET / HTTP/1.1\r\nhost: localhost:{port}\r\n\r\n".encode()
        self._rest = b""
        self._events = 0
        self.transport: Any = None
        self.stopped = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self._rest += data
        for found in _EVENT.finditer(self._rest):
            self._events += 1
            if self._events == 1:
                self._received.firsts.append(now - self._began)
                self._received.check()
            else:
                self._received.lateness.append(now - int(found[1]) / 1000)
        end = self._rest.rfind(b"\n\n")
        self._rest = self._rest[end + 2 :] if end >= 0 else self._rest

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.stopped:
            self._received.failed += 1
            self._received.check()


async def crowd(port: int, streams: int, seconds: float, pid: int) -> tuple[Received, Held, Held]:
    """Open and read the streams; return the results, and the server's resources before and after."""
    received = Received(streams)
    loop = asyncio.get_running_loop()
    clients = await asyncio.gather(
        *(loop.create_connection(lambda: Client(received, port), "127.0.0.1", port) for _ in range(streams))
    )
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(received.started.wait(), FIRST_SECONDS)
    begin = memory_of(pid)
    received.lateness.clear()
    await asyncio.sleep(seconds)
    last = memory_of(pid)
    for _, client in clients:
        client.stopped = True
        client.transport.close()
    return received, begin, last


def percentile(values: list[float], share: int) -> float:
    """Return a percentile (nearest rank)."""
    return sorted(values)[max(0, -(-share * len(values) // 100) - 1)] if values else float("nan")


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        project = Path(folder)
        (project / "svc.toml").write_text(MANIFEST.format(lane="js"))
        (project / "index.js").write_text(SOURCE)
        with svc_dev_process(project, "--release") as (port, pid):
            asyncio.run(crowd(port, 20, 2, pid))
            before = memory_of(pid)
            received, begin, last = asyncio.run(crowd(port, streams, SECONDS, pid))
    figures = {
        "streams": streams,
        "lost": received.failed + streams - len(received.firsts),
        "events": len(received.lateness),
        "first_event_p50_ms": percentile(received.firsts, 50) * 1000,
        "first_event_p99_ms": percentile(received.firsts, 99) * 1000,
        "opening_cpu_ms_a_stream": (begin.cpu_seconds - before.cpu_seconds) / streams * 1000,
        "late_p50_ms": percentile(received.lateness, 50) * 1000,
        "late_p99_ms": percentile(received.lateness, 99) * 1000,
        "rss_kib_a_stream": (last.rss - before.rss) / streams / 1024,
        "own_kib_a_stream": (last.own - before.own) / streams / 1024,
        "cpu_share": (last.cpu_seconds - begin.cpu_seconds) / SECONDS,
        "threads": last.threads,
    }
    write_results("sse", figures)
    print(f"events {figures['events']}, median first event {figures['first_event_p50_ms']:.0f} ms")
    print(
        f"sse streams={streams} lost={figures['lost']}",
        f"first_p99_ms={figures['first_event_p99_ms']:.0f} late_p99_ms={figures['late_p99_ms']:.1f}",
        f"opening_cpu_ms_a_stream={figures['opening_cpu_ms_a_stream']:.2f}",
        f"rss_kib_a_stream={figures['rss_kib_a_stream']:.0f}",
        f"own_kib_a_stream={figures['own_kib_a_stream']:.0f} cpu={figures['cpu_share']:.2f}",
    )
    if figures["lost"]:
        sys.exit(f"{figures['lost']} streams were lost")


if __name__ == "__main__":
    main()
