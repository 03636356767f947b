"""Requests a second of a hello in each dynamic lane on a service, against a bare Hypercorn: c = 16.

Rounds are interleaved, so that all sides of a pair see the same machine; the median of their ratios counts.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.guests import LANES, write_guest
from bench.processes import bare_hypercorn, load, loaded, write_results
from bench.service import DOMAIN, hosted

ROUNDS = 5
SECONDS = 3
CONNECTIONS = 16
WEB = f"web--hello.{DOMAIN}/"
SOURCES = {
    "js": "export default { fetch: () => new Response('hello\\n') };\n",
    "go": """\
package main

import (
	"io"
	"net/http"

	"svc/guest"
)

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello\\n") }

func main() { guest.Serve(http.HandlerFunc(hello)) }
""",
    "rust": """\
use svc_guest::{Request, Response};

fn handle(_: Request) -> Response {
    Response::text("hello\\n")
}

svc_guest::handler!(handle);
""",
}


def write_project(folder: Path, lane: str) -> Path:
    """Write the project of one lane, and return its folder."""
    return write_guest(folder, "hello", lane, SOURCES)


def rate(port: int, connections: int = CONNECTIONS, path: str = WEB) -> float:
    """Load a server for one round; return its requests a second."""
    with load(port, path, SECONDS, connections) as process:
        result = loaded(process)
    if result["failed"]:
        sys.exit(f"{result['failed']} requests failed")
    return float(result["requests"] / result["seconds"])


def main() -> None:
    rates: dict[str, list[float]] = {name: [] for name in ("bare", *LANES)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="svc-bench-")))
        ports = {"bare": stack.enter_context(bare_hypercorn())}
        for lane in LANES:
            ports[lane] = stack.enter_context(hosted(write_project(folder, lane)))
            rate(ports[lane])
        for number in range(ROUNDS):
            for name, port in ports.items():
                rates[name].append(rate(port))
            text = "  ".join(f"{name} {found[-1]:.0f}/s" for name, found in rates.items())
            print(f"round {number + 1}: {text}", flush=True)
    bare = rates["bare"]
    ratios = {
        lane: median(ours / theirs for ours, theirs in zip(rates[lane], bare, strict=True)) for lane in LANES
    }
    per_second = {f"{name}_per_second": median(found) for name, found in rates.items()}
    write_results("hello", {**ratios, **per_second})
    print("hello", *(f"{lane}={ratios[lane]:.3f}" for lane in LANES), "of bare hypercorn")


if __name__ == "__main__":
    main()
