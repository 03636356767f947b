"""Deploys under load: alternate two versions of a front end and an API, under a constant rate of requests.

A response that mixes the API of one version with the routes of the other is counted as `mixed`.
"""

import argparse
import http.client
import tempfile
import threading
import time
from pathlib import Path

from bench.processes import write_results
from bench.service import HOST, Serving, build, deploy, expected, write_project

RATE, CLIENTS = 200, 8


class Load(threading.Thread):
    """A client that requests both paths alternately and counts failed and mixed responses."""

    def __init__(self, port: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._stop_event = stop
        self.requests = self.failed = self.mixed = 0

    def run(self) -> None:
        """Send requests at an even rate until stopped."""
        due = time.monotonic()
        while not self._stop_event.wait(max(0.0, due - time.monotonic())):
            due += CLIENTS / RATE
            path = 1 + self.requests % 2
            self.requests += 1
            try:
                self._connection.request("GET", f"/v{path}/x", headers={"host": HOST, "accept": "text/html"})
                response = self._connection.getresponse()
                text = response.read().decode()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                self.failed += 1
                continue
            if response.status != 200:
                self.failed += 1
            elif text not in (expected(1, path), expected(2, path)):
                self.mixed += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("deploys", nargs="?", type=int, default=50)
    parser.add_argument("--workers", default="1")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="svc-bench-", ignore_cleanup_errors=True) as temporary:
        root = write_project(Path(temporary))
        bundles = [build(root, version) for version in (1, 2)]
        serving = Serving(Path(temporary) / "data", "--workers", arguments.workers)
        serving.start()
        stop = threading.Event()
        try:
            with serving.client() as client:
                deploy(client, bundles[0])
                load = [Load(serving.port, stop) for _ in range(CLIENTS)]
                for thread in load:
                    thread.start()
                began = time.monotonic()
                for number in range(1, arguments.deploys + 1):
                    deploy(client, bundles[number % 2])
                seconds = time.monotonic() - began
        finally:
            stop.set()
            serving.stop()
        for thread in load:
            thread.join()
    requests, failed, mixed = (
        sum(getattr(thread, name) for thread in load) for name in ("requests", "failed", "mixed")
    )
    print(f"{requests} requests in {seconds:.0f} s, {arguments.deploys} deploys")
    results = {"deploys": arguments.deploys, "failed": failed, "mixed": mixed, "requests": requests}
    write_results("deploys", {name: float(value) for name, value in results.items()})
    print(f"deploys={arguments.deploys} failed={failed} mixed={mixed}")


if __name__ == "__main__":
    main()
