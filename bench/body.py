"""Body throughput in MB/s of each lane, against bare Hypercorn: one process, one connection each.

Responses and uploads of 64 KiB, 1 MiB and 64 MiB, of binary data. Rounds are interleaved; the
median of their ratios counts. Before them each server sends and echoes a body that is compared to the byte.
"""

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.guests import LANES, write_guest
from bench.payload import block
from bench.processes import ROOT, bare_hypercorn, write_results
from bench.service import DOMAIN, hosted

ROUNDS = 5
KIB, MIB = 1 << 10, 1 << 20
CHECKED = 4 * MIB
# name -> measurement: action, size in bytes, transfers a round
MEASURED = {
    "get_64k": ("get", 64 * KIB, 400),
    "get_1m": ("get", MIB, 100),
    "get_64m": ("get", 64 * MIB, 2),
    "put_64k": ("put", 64 * KIB, 400),
    "put_1m": ("put", MIB, 100),
    "put_64m": ("put", 64 * MIB, 2),
}
SOURCES = {
    "js": """\
const block = new Uint8Array(65536);
for (let i = 0, state = 1; i < block.length; i++) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  block[i] = state >>> 24;
}

async function upload(request) {
  let count = 0;
  const reader = request.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Response(`${count}\\n`);
    count += value.length;
  }
}

function download(size) {
  let left = size / block.length;
  const body = new ReadableStream({
    pull(controller) {
      if (left-- > 0) controller.enqueue(block.slice());
      else controller.close();
    },
  });
  return new Response(body, { headers: { "content-length": String(size) } });
}

export default {
  async fetch(request) {
    const path = new URL(request.url).pathname;
    if (path === "/echo") {
      const length = request.headers.get("content-length");
      return new Response(request.body, { headers: { "content-length": length } });
    }
    return request.method === "POST" ? upload(request) : download(Number(path.slice(1)));
  },
};
""",
    "go": """\
package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"svc/guest"
)

var block = []byte("BLOCK")

func body(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/echo":
		w.Header().Set("Content-Length", r.Header.Get("Content-Length"))
		io.Copy(w, r.Body)
	case r.Method == http.MethodPost:
		count, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 65536))
		fmt.Fprintln(w, count)
	default:
		size, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for range size / len(block) {
			w.Write(block)
		}
	}
}

func main() { guest.Serve(http.HandlerFunc(body)) }
""".replace("BLOCK", "".join(map("\\x{:02x}".format, block()))),
    "rust": """\
use std::io::Write;

use svc_guest::{Request, Response, Result};

const BLOCK: [u8; 65536] = {
    let (mut block, mut state, mut i) = ([0; 65536], 1_u32, 0);
    while i < block.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        block[i] = (state >> 24) as u8;
        i += 1;
    }
    block
};

fn handle(mut request: Request) -> Result<Response> {
    let length = request.header("content-length").unwrap_or("0").to_owned();
    if request.path() == "/echo" {
        return Ok(Response::stream(move |writer| {
            while let Some(chunk) = request.body().chunk()? {
                writer.write_all(&chunk)?;
            }
            Ok(())
        })
        .with_header("content-length", length));
    }
    if request.method() == "POST" {
        let mut count = 0;
        while let Some(chunk) = request.body().chunk()? {
            count += chunk.len();
        }
        return Ok(Response::text(format!("{count}\\n")));
    }
    let size: usize = request.path()[1..].parse().unwrap_or(0);
    Ok(Response::stream(move |writer| {
        for _ in 0..size / BLOCK.len() {
            writer.write_all(&BLOCK)?;
        }
        Ok(())
    })
    .with_header("content-length", size.to_string()))
}

svc_guest::handler!(handle);
""",
}


class Transfers:
    """A client of one server."""

    def __init__(self, stack: ExitStack, port: int, host: str = "localhost") -> None:
        command = [sys.executable, "-m", "bench.transfer", str(port), host]
        self._process = stack.enter_context(
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(self._process.kill)

    def ask(self, line: str) -> str:
        """Send one command to the client and return its reply."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip() or sys.exit(f"{line}: the client failed")


def main() -> None:
    found: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="svc-bench-")))
        clients = {"bare": Transfers(stack, stack.enter_context(bare_hypercorn("bench.bare_body")))}
        for lane in LANES:
            project = write_guest(folder, "body", lane, SOURCES)
            port = stack.enter_context(hosted(project, "--max-body", "64"))
            clients[lane] = Transfers(stack, port, f"web--body.{DOMAIN}")
            if clients[lane].ask(f"check {CHECKED}") != "exact":
                sys.exit(f"{lane}: other bytes came than were sent")
        for what, (action, size, count) in MEASURED.items():
            rates = found[what] = {name: [] for name in clients}
            for _ in range(ROUNDS):
                for name, client in clients.items():
                    rates[name].append(float(client.ask(f"{action} {size} {count}")))
            text = (f"{name} {median(each):.0f}" for name, each in rates.items())
            print(f"{what} MB/s:", "  ".join(text), flush=True)
    ratios = {
        what: {
            lane: median(ours / theirs for ours, theirs in zip(rates[lane], rates["bare"], strict=True))
            for lane in LANES
        }
        for what, rates in found.items()
    }
    per_second = {what: {name: median(each) for name, each in rates.items()} for what, rates in found.items()}
    write_results("body", {"ratios": ratios, "mb_per_second": per_second})
    parts = (f"{what}:{lane}={ratio:.2f}" for what, lanes in ratios.items() for lane, ratio in lanes.items())
    print("body", *parts, "of bare hypercorn")


if __name__ == "__main__":
    main()
