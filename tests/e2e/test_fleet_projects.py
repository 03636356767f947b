"""Removal of a project from three services that have become a fleet, one of which does not run."""

from pathlib import Path

import httpx
import pytest

from tests.engine.fleet.machines import INSERT, TEXTS, Machines
from tests.support.fleet import require_nats
from tests.support.service import prepare
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def is_served(machines: Machines, number: int) -> bool:
    return machines.servers[number - 1].get().status_code == httpx.codes.OK


def test_a_node_that_was_down_does_not_revive_a_removed_project(tmp_path: Path) -> None:
    require_nats()
    machines = Machines(tmp_path)

    def data(number: int) -> Path:
        return machines.folder(number) / "projects" / "shop"

    def remove(number: int) -> None:
        prepare(machines.project, machines.environ_at(number), "projects", "remove", "shop", "--yes")

    def logs(number: int) -> str:
        return prepare(machines.project, machines.environ_at(number), "logs")

    try:
        with machines.client:
            machines.form()
            assert machines.write(2, INSERT, "old").status_code == httpx.codes.OK
            assert machines.everywhere(TEXTS) == [{"text": "old"}]
            until(lambda: all(is_served(machines, number) for number in (1, 2, 3)))
            machines.servers[2].get("/old-page")
            until(lambda: all("/old-page" in logs(number) for number in (1, 2, 3)))
            machines.kill(3)
            until(lambda: machines.write(1, INSERT, "older").status_code == httpx.codes.OK)
            remove(1)
            assert not any(is_served(machines, number) for number in (1, 2))
            assert not data(1).exists() and not data(2).exists() and data(3).exists()
            prepare(machines.project, machines.environ_at(2), "deploy")
            assert machines.write(2, INSERT, "new").status_code == httpx.codes.OK
            machines.restart(3)
            until(lambda: is_served(machines, 3))
            assert machines.everywhere(TEXTS) == [{"text": "new"}]
            assert not any("/old-page" in logs(number) for number in (1, 2, 3))
            remove(3)
            until(lambda: not any(is_served(machines, number) for number in (1, 2, 3)))
            until(lambda: not any(data(number).exists() for number in (1, 2, 3)))
    finally:
        machines.close()
