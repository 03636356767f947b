"""Requests a second of a hello in each dynamic lane, against a bare Hypercorn: one process each, c = 16.

Rounds are interleaved, so that both sides of a pair see the same machine; the median of their ratios counts.
"""

import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.processes import bare_hypercorn, loaded, start_load, svc_dev, write_results

ROUNDS = 5
SECONDS = 3
CONNECTIONS = 16
MANIFEST = '[project]\nname = "hello"\n\n[resource.web]\nlane = "js"\npublic = true\nentry = "index.js"\n'
SOURCE = "export default { fetch: () => new Response('hello\\n') };\n"


def rate(port: int) -> float:
    """Load a server for one round; return its requests a second."""
    result = loaded(start_load(port, "/", SECONDS, CONNECTIONS))
    if result["failed"]:
        sys.exit(f"{result['failed']} requests failed")
    return float(result["requests"] / result["seconds"])


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as folder:
        project = Path(folder)
        (project / "svc.toml").write_text(MANIFEST)
        (project / "index.js").write_text(SOURCE)
        bare: list[float] = []
        js: list[float] = []
        with bare_hypercorn() as bare_port, svc_dev(project, "--release") as js_port:
            rate(js_port)
            for number in range(ROUNDS):
                bare.append(rate(bare_port))
                js.append(rate(js_port))
                print(f"round {number + 1}: bare {bare[-1]:.0f}/s  js {js[-1]:.0f}/s", flush=True)
    ratio = median(ours / theirs for ours, theirs in zip(js, bare, strict=True))
    write_results("hello", {"js": ratio, "bare_per_second": median(bare), "js_per_second": median(js)})
    print(f"hello js={ratio:.3f} of bare hypercorn")


if __name__ == "__main__":
    main()
