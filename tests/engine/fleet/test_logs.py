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
from screens.logs.export import export_of_fleet
from screens.logs.filter import RecordSelection
from screens.logs.fleet_records import FleetRecordSource
from screens.project_client import ConnectionInfo, ProjectClient
from svc_tui.client import Client, SvcError
from tests.engine.fleet.cluster import Cluster
from tests.engine.fleet.machines import Machines
from tests.engine.fleet.machines import machines as started
from tests.screens.dev_project import Console
from tests.support.screens import text
from tests.support.screens import until as until_shown
from tests.support.service import run, svc
from tests.support.waiting import until

pytestmark = pytest.mark.slow
LOGS = "/v1/projects/shop/logs"


@pytest.fixture(scope="module")
def machines(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """`cluster` skips the tests without nats-server."""
    with started(tmp_path_factory.mktemp("logs ü")) as running:
        yield running


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

    @property
    def missing(self) -> list[str]:
        """The nodes that do not answer."""
        items = [document["nodes"] for document in self.documents if document["kind"] == "missing"]
        return [node["node"] for node in items[-1]] if items else []

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


def test_records_of_all_nodes_are_in_the_order_of_their_time(machines: Machines) -> None:
    sent = [each for name in ("b", "c") for number in (3, 1, 2) for each in send(machines, number, name)]
    until(lambda: len(targets(printed(machines, 2))) == 5 + len(sent))
    documents = printed(machines, 2, "--tail", "4")
    assert len(documents) == 4
    assert set(targets(documents)) < set(sent)
    everything = printed(machines, 3, "--since", "1h")
    last = targets(everything)[-len(sent) :]
    assert set(last[:3]) == set(sent[:3])
    assert set(last[3:]) == set(sent[3:])
    request = everything[-1]
    assert printed(machines, 1, "--request", request["request_id"]) == [request]


def test_cursor_of_one_node_continues_with_all(machines: Machines) -> None:
    everything = printed(machines, 1, "--since", "1h")
    own = next(each["node"] for each in everything if each.get("target") == "/?old-1-1")
    cursor = next(each["cursor"] for each in everything if each["node"] == own)
    rest = printed(machines, 1, "--after", str(cursor))
    assert set(targets(everything)) - set(targets(rest)) == {"/?old-1-1"}
    refused = machines.client.get(f"{machines.servers[0].control}{LOGS}?after=@1,n1")
    assert refused.status_code == 422


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
        document = usage(number)
        assert document["rows"] == usage(1)["rows"]
        assert document["missing"] == []


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
    assert list(machines.root.glob("m*/projects/*/timeline-copy-*")) == []


def test_board_and_status_show_nodes_quorum_and_lag(machines: Machines) -> None:
    assert machines.write(2, "INSERT INTO entries (text) VALUES ($1)", "first").status_code == 200
    machines.everywhere("SELECT * FROM entries")

    def status(number: int) -> dict[str, Any]:
        done = run(machines.project, machines.environ, "fleet", "status", "--json", *machines.data(number))
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    until(lambda: [node["lag_ms"] for node in status(2)["nodes"]] == [0, 0, 0])
    state = status(3)
    assert state["quorum"]
    assert [node["leads"] for node in state["nodes"]].count(True) == 1
    assert [node["this"] for node in state["nodes"]].count(True) == 1

    async def main() -> None:
        client = client_of(machines, 1)
        app = Console(BoardScreen(client, unicode=True))
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


def shown(source: FleetRecordSource) -> list[str]:
    """Return the targets of all rows."""
    source.merge_history()
    keys = [source.cursor(at) for at in range(source.count())]
    return [(source.document(key) or {}).get("target", "") for key in keys]


def test_console_logs_have_the_records_of_all_nodes(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Counter(targets(printed(machines, 1, "--since", "1h")))
    client, failures = client_of(machines, 3), list[SvcError]()
    source = FleetRecordSource(client, RecordSelection(), failures.append)
    source.start()
    until(lambda: Counter(shown(source)) == expected)
    source.stop()
    missed = [*send(machines, 1, "stopped"), *send(machines, 2, "stopped")]
    until(lambda: set(missed) <= set(targets(printed(machines, 1, "--since", "1h"))))
    source.start()
    until(lambda: Counter(shown(source)) == expected + Counter(missed))
    last = source.cursor(source.count() - 1)
    first = source.next(last, -1, {"text": "OLD-1"})
    assert first is not None
    assert (source.document(first) or {})["target"] == "/?old-1-1"
    assert source.index(first) == source.nearest(first)
    assert source.next(first, -1, {}) is None
    assert source.next(first, 1, {"level": "error"}) is None
    assert len(source.window(0, 5)) == 5

    monkeypatch.setattr("screens.logs.fleet_records.MAX_FLEET_RECORDS", source.count())
    count, newest = source.count(), send(machines, 2, "newest")
    until(lambda: source.read() > count)
    assert source.merge_history() < 0
    assert shown(source)[-1:] == newest
    assert source.index(first) is None
    source.stop()

    found = FleetRecordSource(client, RecordSelection.parse("stopped-2 since:1h"), failures.append)
    found.start()
    until(lambda: shown(found) == ["/?stopped-2"])
    found.stop()
    assert failures == []
    exported = [json.loads(line) for line in export_of_fleet(client, RecordSelection(), set(), lines=False)]
    assert Counter(targets(exported)) == expected + Counter(missed) + Counter(newest)
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
        until(lambda: len(followed.missing) == 1)
        node = followed.missing[0]
        assert node.startswith("n")
        assert node in run(machines.project, machines.environ_at(2), "usage", "--service").stderr
        status = ("fleet", "status", *machines.data(2))

        def listed() -> str:
            return run(machines.project, machines.environ, *status).stdout

        until(lambda: "2 of 3 nodes present, quorum yes" in listed())  # No quorum until a leader is elected.
        assert "away since " in listed()
        sql = ("logs", "--service", "--sql", "select 1 as one")
        assert (
            f"the node {node} does not answer" in run(machines.project, machines.environ_at(2), *sql).stderr
        )
        warned = run(machines.project, machines.environ_at(2), "logs", "--service", "--tail", "1")
        assert f"warning: the node {node} does not answer since " in warned.stderr
        client = client_of(machines, 2)
        source = FleetRecordSource(client, RecordSelection(), lambda error: None)
        source.start()
        until(lambda: source.missing == (node,))
        expect(1, 2, name="two")
        machines.restart(3)
        until(lambda: source.missing == ())
        source.stop()
        client.disconnect()
        until(lambda: followed.missing == [])
        expect(3, 1, name="back")

        machines.kill(1)
        sent += send(machines, 2, *(f"away-{each}" for each in range(20)))
        machines.restart(1)
        expect(1, 2, 3, name="end")
        machines.kill(2)
        until(lambda: len(followed.missing) == 1)
        machines.restart(2)
        until(lambda: followed.missing == [])
        expect(2, name="last")
        counted = Counter(followed.targets[known:])
    assert [target for target in sent if counted[target] != 1] == []
    for number in (1, 2, 3):
        own = [target for target in followed.targets if target in set(sent) and target.endswith(str(number))]
        assert own == [target for target in sent if target.endswith(f"-{number}")]


def test_status_without_a_majority_lists_all_nodes(machines: Machines) -> None:
    machines.kill(2)
    machines.kill(3)

    def status() -> dict[str, Any]:
        done = run(machines.project, machines.environ, "fleet", "status", "--json", *machines.data(1))
        return dict(json.loads(done.stdout))

    until(lambda: not status()["quorum"])
    until(lambda: [node["present"] for node in status()["nodes"]] == [True, False, False])
    assert not any(node["leads"] for node in status()["nodes"])
