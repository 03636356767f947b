"""Files of a service that has become a fleet: each node stores them, and sends those of the others."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.engine.fleet.machines import Machines
from tests.support.fleet import require_nats
from tests.support.waiting import until

MANIFEST = """
[resource.media]
lane = "static"
public = true
files = "public/"

[resource.near]
lane = "static"
public = true
files = "public/"
reads = "stale"
"""
LARGE = b"0123456789" * 300_000


class Site:
    """Files of the project `shop`, stored and requested on nodes."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    def store(self, node: int, key: str, content: bytes) -> None:
        url = f"{self.machines.servers[node - 1].control}/v1/projects/shop/files/content"
        stored = self.machines.client.put(url, params={"key": key}, content=content)
        assert stored.status_code == 200, stored.text

    def ask(self, node: int, path: str, resource: str = "media", **headers: str) -> httpx.Response:
        url = f"http://127.0.0.1:{self.machines.servers[node - 1].port}{path}"
        return httpx.get(url, headers={"host": f"{resource}--shop.localhost", **headers}, timeout=60)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    require_nats()

    def complete(project: Path) -> None:
        with (project / "svc.toml").open("a") as manifest:
            manifest.write(MANIFEST)

    with closing(Machines(tmp_path, complete=complete)) as machines, machines.client:
        yield Site(machines)


@pytest.mark.slow(seconds=20)
def test_every_node_serves_the_files_of_all(site: Site) -> None:
    site.store(1, "public/before.txt", b"before the fleet")
    site.machines.form()
    for node in (1, 2, 3):
        site.store(node, f"public/{node}.bin", LARGE + b"%d" % node)
    for node in (1, 2, 3):
        assert site.ask(node, "/before.txt").text == "before the fleet"
        for writer in (1, 2, 3):
            assert site.ask(node, f"/{writer}.bin").content == LARGE + b"%d" % writer
        part = site.ask(node, "/3.bin", range="bytes=-3")
        assert (part.status_code, part.content) == (206, b"893")
        until(lambda node=node: site.ask(node, "/3.bin", "near").content == LARGE + b"3")
        assert site.ask(node, "/none").status_code == 404
