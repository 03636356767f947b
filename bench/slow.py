"""Cost of a slow client: memory of the service while a guest sends 1 GB to a client that lags behind.

The client reads in pieces, with a pause after each, until it has it all. The most that the service's own
memory grows meanwhile is the figure; its peer is the same service before the request.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from bench.memory import memory_of
from bench.processes import svc_dev_process, write_results

SIZE = 1 << 30
PIECE = 1 << 20
PAUSE = 0.02
LOOK_SECONDS = 0.2
LIMIT = 64 << 20
MANIFEST = '[project]\nname = "slow"\n\n[resource.web]\nlane = "js"\npublic = true\nrun_limit_secs = 900\n'
SOURCE = """\
const piece = new Uint8Array(65536).fill(120);

export default {
  fetch(request) {
    let left = Number(new URL(request.url).pathname.slice(1)) / piece.length;
    return new Response(new ReadableStream({
      pull(controller) {
        if (left-- > 0) controller.enqueue(piece.slice());
        else controller.close();
      },
    }));
  },
};
"""


async def read(port: int, size: int) -> tuple[int, float]:
    """Read a response of `size` bytes slowly; return the received size and the seconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=PIECE)
    began, received = time.perf_counter(), 0
    writer.write(f"GET /{size} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    while data := await reader.read(PIECE):
        received += len(data)
        await asyncio.sleep(PAUSE * len(data) / PIECE)
    writer.close()
    return received, time.perf_counter() - began


async def measure(port: int, pid: int) -> tuple[int, float]:
    """Return the most bytes of memory that were added, and the seconds that the response took."""
    await read(port, PIECE)
    before = most = memory_of(pid).own
    reading = asyncio.create_task(read(port, SIZE))
    while not (await asyncio.wait([reading], timeout=LOOK_SECONDS))[0]:
        most = max(most, memory_of(pid).own)
    received, seconds = await reading
    assert received > SIZE, "the response was cut"
    return most - before, seconds


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        project = Path(folder)
        (project / "svc.toml").write_text(MANIFEST)
        (project / "index.js").write_text(SOURCE)
        with svc_dev_process(project, "--release") as (port, pid):
            most, seconds = asyncio.run(measure(port, pid))
    write_results("slow", {"added_bytes": most, "seconds": seconds})
    print(
        f"slow client: {SIZE / 1e9:.2f} GB in {seconds:.0f} s with {most / 1e6:.1f} MB of memory added "
        f"(limit: {LIMIT / 1e6:.0f})"
    )


if __name__ == "__main__":
    main()
