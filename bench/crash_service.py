"""Kills `svc serve` at random moments of deploys, and sees what is live afterwards: one whole version."""

import random
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import httpx

from bench.processes import write_results
from bench.service import HOST, Serving, build, common_version, deploy, write_project
from engine.errors import SvcError

LONGEST_SECONDS = 0.25


def rounds(folder: Path, count: int) -> tuple[int, int]:
    """Return how often a whole version was live after a kill, and how often it was the new one."""
    root = write_project(folder)
    bundles = [build(root, version) for version in (1, 2)]
    serving = Serving(folder / "data ü")
    serving.start()
    with serving.client() as client:
        deploy(client, bundles[0])
    live, good, activated = 1, 0, 0
    try:
        for _ in range(count):
            wanted = 3 - live

            def attempt(version: int = wanted) -> None:
                with suppress(SvcError), serving.client() as client:
                    deploy(client, bundles[version - 1])

            deploying = threading.Thread(target=attempt)
            deploying.start()
            deploying.join(random.uniform(0, LONGEST_SECONDS))
            serving.kill()
            deploying.join()
            serving.start()
            found = common_version({path: _ask(serving.port, path) for path in (1, 2)})
            if found is None:
                continue
            good += 1
            activated += found == wanted
            live = found
        with serving.client() as client:
            deploy(client, bundles[2 - live])
        assert common_version({path: _ask(serving.port, path) for path in (1, 2)}) == 3 - live
    finally:
        serving.stop()
    return good, activated


def _ask(port: int, path: int) -> str:
    headers = {"host": HOST, "accept": "text/html"}
    return httpx.get(f"http://127.0.0.1:{port}/v{path}/x", headers=headers, timeout=30).text


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory(prefix="svc-bench-", ignore_cleanup_errors=True) as folder:
        good, activated = rounds(Path(folder), count)
    write_results(
        "crash_service", {"kills": float(count), "complete": float(good), "activated": float(activated)}
    )
    print(f"kills={count} complete={good} activated={activated}")


if __name__ == "__main__":
    main()
