"""Logs, usage and state of three services that have become a fleet.

Tests use them in the order of this file.
"""

import asyncio
import json
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from textual.screen import Screen

from screens.board.screen import BoardScreen
from screens.logs.records import RecordSelection, RecordSource, export_records
from screens.project_client import ConnectionInfo, ProjectClient
from svc_tui.client import Client, SvcError
from tests.engine.fleet.machines import Machines
from tests.screens.dev_project import Console
from tests.support.screens import text
from tests.support.screens import until as until_shown
from tests.support.service import prepare, run, svc
from tests.support.waiting import until

pytestmark = pytest.mark.slow
LOGS = "/v1/projects/shop/logs"


class Followed:
    """The documents that `svc logs -f --json` has printed."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.documents: list[dict[str, Any]] = []
        self._process = process
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.documents.append(json.loads(line))

    @property
    def targets(self) -> list[str]:
        """The targets of the requests."""
        return [document["target"] for document in self.documents if document["kind"] == "request"]

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._thread.join()


@contextmanager
def following(machines: Machines, number: int, *options: str) -> Iterator[Followed]:
    process = subprocess.Popen(
        [*svc(), "logs", "--service", "-f", "--json", *options],
        cwd=machines.project,
        env=machines.environ_at(number),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    followed = Followed(process)
    try:
        yield followed
    finally:
        followed.stop()


def send(machines: Machines, number: int, *names: str) -> list[str]:
    """Send requests to a node, and return their targets."""
    targets = [f"/?{name}-{number}" for name in names]
    for target in targets:
        assert machines.servers[number - 1].get(target).status_code == 200
    return targets


def printed(machines: Machines, number: int, *options: str) -> list[dict[str, Any]]:
    """Return the documents that `svc logs --json` prints on a node."""
    done = run(machines.project, machines.environ_at(number), "logs", "--service", "--json", *options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def targets(documents: list[dict[str, Any]]) -> list[str]:
    return [document["target"] for document in documents if document["kind"] == "request"]


def test_stream_of_the_founder_continues_with_all_nodes(machines: Machines) -> None:
    before = send(machines, 1, "old-1", "old-2")
    with following(machines, 1) as followed:
        until(lambda: followed.targets == before)
        machines.form()
        expected = Counter([*before, *(each for number in (1, 2, 3) for each in send(machines, number, "a"))])
        until(lambda: len(followed.targets) >= 5)
        assert Counter(followed.targets) == expected
    nodes = {document["node"] for document in followed.documents if document.get("node")}
    assert len(nodes) >= 2


def test_every_node_has_the_records_of_all(machines: Machines) -> None:
    sent = [each for name in ("b", "c") for number in (3, 1, 2) for each in send(machines, number, name)]
    for number in (1, 2, 3):
        until(lambda number=number: len(targets(printed(machines, number, "--since", "1h"))) == 5 + len(sent))
    first, *others = [printed(machines, number, "--since", "1h") for number in (1, 2, 3)]

    def key(document: dict[str, Any]) -> tuple[str, str]:
        return document["request_id"], document["node"]

    for documents in others:
        assert sorted(map(key, documents)) == sorted(map(key, first))
    assert {document["node"] for document in first} == {document["node"] for document in others[0]}
    assert len({document["node"] for document in first}) == 3
    request = next(document for document in first if document["target"] == sent[0])
    (found,) = printed(machines, 1, "--request", request["request_id"])
    assert found == request
    rest = printed(machines, 1, "--after", str(first[-3]["cursor"]))
    assert rest == first[-2:]
    assert len(printed(machines, 2, "--tail", "4")) == 4


def test_stream_ends_on_every_node_when_the_token_is_revoked(machines: Machines) -> None:
    def manage(*options: str) -> str:
        done = run(machines.project, machines.environ, "token", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    token = manage("create", "temporary", "--role", "viewer")
    address = f"{machines.servers[1].control}{LOGS}?follow=true"
    with httpx.stream("GET", address, headers={"authorization": f"Bearer {token}"}, timeout=60) as answer:
        lines = answer.iter_lines()
        next(lines)
        manage("rm", "temporary", "--yes")
        *_, last = lines
    assert json.loads(last)["error"]["code"] == "unauthenticated"


def test_usage_is_the_sum_of_all_nodes(machines: Machines) -> None:
    count = len(targets(printed(machines, 1, "--since", "1h")))

    def usage(number: int) -> dict[str, Any]:
        done = run(machines.project, machines.environ_at(number), "usage", "--service", "--json")
        assert done.returncode == 0, done.stderr
        document = dict(json.loads(done.stdout))
        for row in document["rows"]:
            del row["start"]  # Another minute may begin between two calls.
        return document

    until(lambda: usage(1)["rows"][0]["requests"] == count)
    for number in (2, 3):
        until(lambda number=number: usage(number)["rows"] == usage(1)["rows"])


def test_sql_reads_the_records_of_all_nodes(machines: Machines) -> None:
    everything = printed(machines, 1, "--since", "1h")

    def rows(sql: str) -> list[dict[str, Any]]:
        done = run(machines.project, machines.environ_at(2), "logs", "--service", "--json", "--sql", sql)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("warning") == 0
        return [json.loads(line) for line in done.stdout.splitlines()]

    paths = rows("select target, node from requests order by time")
    assert Counter(row["target"] for row in paths) == Counter(targets(everything))
    assert {row["node"] for row in paths} == {document["node"] for document in everything}
    counted = rows("select count(*) as n, count(distinct node) as nodes, p50(wall_ms) as p50 from requests")
    assert (counted[0]["n"], counted[0]["nodes"]) == (len(targets(everything)), 3)
    assert rows("select count(*) as n from metrics") == [{"n": 0}]
    sql = ("logs", "--service", "--sql", "delete from requests")
    refused = run(machines.project, machines.environ_at(2), *sql)
    assert refused.returncode == 1
    assert "cannot modify requests" in refused.stderr


def test_board_and_status_show_nodes_quorum_and_lag(machines: Machines) -> None:
    assert machines.write(2, "INSERT INTO entries (text) VALUES ($1)", "first").status_code == 200
    machines.everywhere("SELECT * FROM entries")

    def status(number: int) -> dict[str, Any]:
        options = ("--json", *machines.data(number))
        return dict(json.loads(prepare(machines.project, machines.environ, "fleet", "status", *options)))

    until(lambda: [node["lag_ms"] for node in status(2)["nodes"]] == [0, 0, 0])
    state = status(3)
    assert state["quorum"]
    assert [node["leads"] for node in state["nodes"]].count(True) == 1
    assert [node["this"] for node in state["nodes"]].count(True) == 1

    async def main() -> None:
        client = client_of(machines, 1)
        app = Console(BoardScreen(client))
        async with app.run_test(size=(80, 24)) as pilot:
            await until_shown(pilot, lambda: "quorum yes, tables current" in text(app))
            line = text(app).splitlines()[-3]
            assert re.fullmatch(r" fleet  ●.* here .*●.*●.*", line), line
            assert line.count(" here") == 1
            await pilot.press(*["down"] * 4, "enter")
            await until_shown(pilot, lambda: ", leads" in text(app))
            for node in state["nodes"]:
                assert node["id"] in text(app)
                assert node["address"] in text(app)
            await pilot.press("escape")
            await until_shown(pilot, lambda: ", leads" not in text(app))
            await pilot.app.push_screen(Screen())  # Stop further requests.
        client.disconnect()

    asyncio.run(main())


def client_of(machines: Machines, number: int) -> ProjectClient:
    control = machines.servers[number - 1].control
    info = ConnectionInfo("shop", "service", control)
    client = ProjectClient(info, lambda: Client(control, machines.token, 60.0))
    client.reconnect()
    return client


def shown(source: RecordSource) -> list[str]:
    """Return the targets of all rows."""
    source.merge_history()
    keys = [source.cursor(at) for at in range(source.count())]
    return [(source.document(key) or {}).get("target", "") for key in keys]


def test_console_logs_have_the_records_of_all_nodes(machines: Machines) -> None:
    expected = Counter(targets(printed(machines, 1, "--since", "1h")))
    client, failures = client_of(machines, 3), list[SvcError]()
    source = RecordSource(client, RecordSelection(), failures.append)
    source.start()
    until(lambda: Counter(shown(source)) == expected)
    newest = [*send(machines, 1, "newest"), *send(machines, 2, "newest")]
    until(lambda: Counter(shown(source)) == expected + Counter(newest))
    source.stop()
    assert failures == []
    exported = export_records(client, RecordSelection(), lines=False, on_progress=lambda *_: None)
    documents = [json.loads(line) for page in exported for line in page.splitlines()]
    assert Counter(targets(documents)) == expected + Counter(newest)
    assert {document["node"] for document in documents} == {
        document["node"] for document in printed(machines, 1, "--since", "1h")
    }
    client.disconnect()


def test_followed_logs_lose_and_repeat_nothing_while_nodes_are_killed(machines: Machines) -> None:
    sent: list[str] = []
    with following(machines, 1, "--tail", "0") as followed:
        until(lambda: bool(send(machines, 1, "start")) and len(followed.documents) > 0)
        known = len(followed.targets)

        def expect(*numbers: int, name: str) -> None:
            for number in numbers:
                sent.extend(send(machines, number, *(f"{name}-{each}" for each in range(20))))
            until(lambda: set(sent) <= set(followed.targets))

        expect(1, 2, 3, name="all")
        machines.kill(3)
        expect(1, 2, name="two")
        listed = printed(machines, 2, "--since", "1h")
        assert "/?all-19-3" in targets(listed)
        machines.restart(3)
        until(lambda: "/?two-19-1" in targets(printed(machines, 3, "--since", "1h")))
        expect(3, 1, name="back")
        machines.kill(1)
        sent += send(machines, 2, *(f"away-{each}" for each in range(20)))
        machines.restart(1)
        expect(1, 2, 3, name="end")
        counted = Counter(followed.targets[known:])
    assert [target for target in sent if counted[target] != 1] == []
    for number in (1, 2, 3):
        own = [target for target in followed.targets if target in set(sent) and target.endswith(str(number))]
        assert own == [target for target in sent if target.endswith(f"-{number}")]
    for number in (1, 2, 3):
        until(lambda number=number: set(sent) <= set(targets(printed(machines, number, "--since", "1h"))))


def test_status_without_a_majority_lists_all_nodes(machines: Machines) -> None:
    machines.kill(2)
    machines.kill(3)

    def status() -> dict[str, Any]:
        done = run(machines.project, machines.environ, "fleet", "status", "--json", *machines.data(1))
        return dict(json.loads(done.stdout))

    until(lambda: not status()["quorum"])
    until(lambda: [node["present"] for node in status()["nodes"]] == [True, False, False])
    assert not any(node["leads"] for node in status()["nodes"])
