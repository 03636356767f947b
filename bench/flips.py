"""Deploys under load: two versions of front end and API by turns, while requests come all the time.

Each answer has to be one that the versions give, for the path that was asked: an API of one version behind
the routes of the other would be seen.
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
    """A client that asks both paths by turns, and counts what it should not have got."""

    def __init__(self, port: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._stop_asked = stop
        self.asked = self.failed = self.mixed = 0

    def run(self) -> None:
        """Send requests at an even rate until stopped."""
        due = time.monotonic()
        while not self._stop_asked.wait(max(0.0, due - time.monotonic())):
            due += CLIENTS / RATE
            path = 1 + self.asked % 2
            self.asked += 1
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
    parser.add_argument("flips", nargs="?", type=int, default=50)
    parser.add_argument("--workers", default="1")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="svc-bench-", ignore_cleanup_errors=True) as temporary:
        root = write_project(Path(temporary))
        bundles = [build(root, version) for version in (1, 2)]
        serving = Serving(Path(temporary) / "data", "--workers", wanted.workers)
        serving.start()
        stop = threading.Event()
        try:
            with serving.client() as client:
                deploy(client, bundles[0])
                load = [Load(serving.port, stop) for _ in range(CLIENTS)]
                for each in load:
                    each.start()
                began = time.monotonic()
                for number in range(1, wanted.flips + 1):
                    deploy(client, bundles[number % 2])
                seconds = time.monotonic() - began
        finally:
            stop.set()
            serving.stop()
        for each in load:
            each.join()
    asked, failed, mixed = (
        sum(getattr(each, name) for each in load) for name in ("asked", "failed", "mixed")
    )
    print(f"{asked} requests in {seconds:.0f} s, {wanted.flips} deploys")
    found = {"flips": wanted.flips, "failed": failed, "mixed": mixed, "requests": asked}
    write_results("flips", {name: float(value) for name, value in found.items()})
    print(f"flips={wanted.flips} failed={failed} mixed={mixed}")


if __name__ == "__main__":
    main()
