"""Deploys of a page while nodes fail: each node serves whole versions, and never an older one again."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from tests.support.fleet import FleetNodes
from tests.support.service import run_process
from tests.support.waiting import until

PAUSE_SECONDS = 0.05
SETTLE_SECONDS = 60.0
DEPLOY_SECONDS = 180.0


class Deploys:
    """The page of the project has the number of its version."""

    def __init__(self, machines: FleetNodes, nodes: list[int]) -> None:
        self._machines, self._nodes = machines, nodes
        self.acked: list[int] = []
        self._failures: list[str] = []
        self._sent = 0
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Deploy and read within the context, then wait until all nodes serve the last version."""
        self._sent = max(page for page in self._pages() if page is not None)
        with ThreadPoolExecutor() as threads:
            working = [
                threads.submit(self._deploy),
                *(threads.submit(self._read, node) for node in self._nodes),
            ]
            try:
                yield
            finally:
                self._stop.set()
        for work in working:
            work.result()
        # A deploy whose answer was lost may be live too.
        until(lambda: len(pages := self._pages()) == 1 and min(pages) >= self.acked[-1], SETTLE_SECONDS)

    def wait_for_another(self) -> None:
        """Wait until one more deploy has succeeded."""
        acked = len(self.acked)
        try:
            until(lambda: len(self.acked) > acked, DEPLOY_SECONDS)
        except AssertionError:
            raise AssertionError(f"no deploy succeeded: {self._failures[-3:]}") from None

    def _deploy(self) -> None:
        page = self._machines.project / "site" / "index.html"
        while not self._stop.is_set():
            self._sent += 1
            page.write_text(str(self._sent))
            node = self._nodes[self._sent % len(self._nodes)]
            with self._machines.at(node):
                environ = self._machines.environ_at(node)
                done = run_process(self._machines.project, environ, "deploy")
            if done.returncode == 0:
                self.acked.append(self._sent)
            else:
                self._failures.append(done.stderr)
            self._stop.wait(PAUSE_SECONDS)

    def _read(self, node: int) -> None:
        newest = 0
        while not self._stop.is_set():
            page = self._page(node)
            if page is not None:
                assert newest <= page <= self._sent, f"node {node} served {page} after {newest}"
                newest = page
            self._stop.wait(PAUSE_SECONDS)

    def _pages(self) -> set[int | None]:
        return {self._page(node) for node in self._nodes}

    def _page(self, node: int) -> int | None:
        """Return the version that a node serves; None without an answer."""
        try:
            with self._machines.at(node):
                answer = self._machines.servers[node - 1].get()
        except httpx.TransportError:
            return None
        assert answer.status_code == 200, f"node {node}: {answer.status_code} {answer.text[:200]}"
        return 0 if answer.text == "one" else int(answer.text)
