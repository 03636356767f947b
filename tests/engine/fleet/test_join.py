"""A fleet of three services on loopback, from `svc fleet start` to its third node."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from doors.tables.sqlite.connections import open_owner
from engine.bucket import layout
from engine.bucket.protocols import BucketError
from engine.files.database_files import remove_database
from engine.fleet.registry import JoinToken
from tests.engine.fleet.cluster import Cluster
from tests.support.fleet import FleetNodes
from tests.support.service import ANY_PORTS, Server, environ_of, prepare, run, static_project, svc
from tests.support.waiting import until

pytestmark = pytest.mark.slow


class Machines(FleetNodes):
    """Three services, which tests use in the order of this file."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, static_project(root / "shop"), environ_of(root / "home"))
        prepare(self.project, self.environ, "secret", "set", "KEY", text="value")

    def fleet(self, *arguments: str, node: int = 1) -> dict[str, object]:
        """Run `svc fleet` with the data directory of a node, and return its JSON document."""
        done = run(self.project, self.environ, "fleet", *arguments, *self.data(node), "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def machines(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """`cluster` skips the tests without nats-server."""
    machines = Machines(tmp_path_factory.mktemp("machines ü"))
    try:
        yield machines
    finally:
        machines.close()


def test_start_names_tables_that_a_fleet_cannot_replicate(machines: Machines) -> None:
    tables = machines.root / "m1" / "projects" / "shop" / "tables" / "tables.db"
    tables.parent.mkdir(parents=True, exist_ok=True)
    with closing(open_owner(tables)) as connection:
        connection.execute("create table sets (id text not null primary key)")
    listen = ("--listen", str(machines.addresses[0]))
    refused = run(machines.project, machines.environ, "fleet", "start", *machines.data(1), *listen)
    assert refused.returncode == 1
    assert "tables of this service: sets of shop" in refused.stderr
    assert "In shop: Add WITHOUT ROWID to the CREATE TABLE of sets." in refused.stderr
    remove_database(tables)


def test_start_creates_tokens_and_the_service_continues(machines: Machines) -> None:
    project, environ, data = machines.project, machines.environ, str(machines.root / "m1")
    missing = run(project, environ, "fleet", "status", "--data", data)
    assert missing.returncode == 1
    assert "not part of a fleet" in missing.stderr
    with socket.create_server(("127.0.0.1", machines.addresses[0].port)):
        result = run(
            project, environ, "fleet", "start", "--data", data, "--listen", str(machines.addresses[0])
        )
    assert result.returncode == 1
    assert f"cannot listen on {machines.addresses[0]}: Address already in use\n" in result.stderr

    started = run(project, environ, "fleet", "start", "--data", data, "--listen", str(machines.addresses[0]))
    assert started.returncode == 0, started.stderr
    machines.tokens = re.findall(r"SVC_JOIN=(\S+) svc serve --data ", started.stdout)
    assert len(set(machines.tokens)) == 2
    assert "this service stops serving for the seconds that the copy of its data takes" in started.stderr
    again = run(project, environ, "fleet", "start", "--data", data, "--listen", str(machines.addresses[1]))
    assert again.stdout.splitlines()[:2] == started.stdout.splitlines()[:2]
    state = run(project, environ, "fleet", "status", "--data", data)
    assert "1 of 3 nodes; this service serves alone" in state.stdout
    assert machines.servers[0].get().text == "one"


def test_unsuitable_machines_are_refused(machines: Machines) -> None:
    project, environ = machines.project, machines.environ
    token = JoinToken.parse(machines.tokens[0])
    forged = JoinToken(addresses=token.addresses, authority=token.authority, secret="x" * 43).text
    wrong_fleet = JoinToken(addresses=token.addresses, authority="0" * 64, secret=token.secret).text
    address = str(machines.addresses[3])
    for text, message in (
        (forged, "the token is not one of this fleet"),
        (wrong_fleet, "is not a node of the fleet of this token"),
        (machines.tokens[0][:-20], "the token is not valid"),
    ):
        refused = run(
            project, environ, "serve", "--data", str(machines.root / "x"), "--join", text,
            "--fleet-listen", address, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
        )  # fmt: skip
        assert (refused.returncode, message in refused.stderr) == (1, True), refused.stderr
    refused = run(
        project, environ, "serve", "--data", str(machines.root / "x"), "--join", machines.tokens[0],
        "--fleet-listen", str(machines.addresses[0]), "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
    )  # fmt: skip
    assert refused.returncode == 1
    assert f"cannot listen on {machines.addresses[0].join}" in refused.stderr
    refused = run(
        project, environ, "serve", "--data", str(machines.root / "x"), "--join", machines.tokens[0],
        "--fleet-listen", address, "--workers", "2", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
    )  # fmt: skip
    assert refused.returncode == 1
    assert "a node of a fleet serves with one process, not with --workers 2" in refused.stderr


def answers_until_member(machines: Machines) -> list[httpx.Response]:
    """Return the answers of the first node until it is a member: none is missing."""
    answers = [machines.servers[0].get()]
    while machines.state(1) != "member":
        answers.append(machines.servers[0].get())
    return [*answers, machines.servers[0].get()]


def test_fleet_serves_from_the_third_node_on_although_two_nodes_are_killed(machines: Machines) -> None:
    arguments = ("serve", "--data", str(machines.root / "m2"), *machines.joining(2, machines.tokens[0]))
    interrupted = subprocess.Popen(
        [*svc(), *arguments, *ANY_PORTS], env=machines.environ, stderr=subprocess.DEVNULL
    )
    until(lambda: len(machines.fleet("status")["nodes"]) == 2)  # type: ignore[arg-type]
    assert (
        "keeper  0.1.0    joined"
        in run(machines.project, machines.environ, "fleet", "status", *machines.data(1)).stdout
    )
    until(lambda: (machines.root / "m2" / "fleet" / "fleet.json").exists())
    waiting = run(machines.project, machines.environ, "fleet", "status", *machines.data(2))
    assert "waits until the fleet has enough nodes" in waiting.stderr
    interrupted.kill()
    interrupted.wait()
    assert machines.servers[0].get().text == "one"
    with ThreadPoolExecutor() as threads:
        joining = [threads.submit(machines.join, number, machines.tokens[number - 2]) for number in (2, 3)]
        machines.servers[0].wait_for("this service stops serving while its data is copied")
        machines.kill(1)
        assert machines.state(1) == "founding"
        machines.restart(1)
        assert machines.servers[0].get().text == "one"
        machines.servers[0].wait_for("lacks the data of this service; run `svc fleet start` to copy it")
        state = run(machines.project, machines.environ, "fleet", "status", *machines.data(1))
        assert "alone: run `svc fleet start`" in state.stdout
        answers = threads.submit(answers_until_member, machines)
        again = run(machines.project, machines.environ, "fleet", "start", *machines.data(1))
        assert "it stops serving for the seconds that the copy of its data takes" in again.stdout, (
            again.stderr
        )
        machines.servers[0].wait_for("copied ")
        machines.servers[0].wait_for("the service serves again, after ")
        statuses = {answer.status_code for answer in answers.result()}
        assert statuses == {200, 503}
        assert all("retry-after" in answer.headers for answer in answers.result() if answer.is_error)
        machines.servers += [each.result() for each in joining]
    assert (machines.root / "m1" / "moved").exists()
    assert [server.get().text for server in machines.servers] == ["one"] * 3
    until(lambda: all(node["present"] for node in machines.fleet("status", node=3)["nodes"]))  # type: ignore[attr-defined]
    state = machines.fleet("status", node=2)
    assert (state["serving"], state["healthy"], len(state["nodes"])) == (True, True, 3)  # type: ignore[arg-type]


def change_page(machines: Machines, text: str) -> None:
    (machines.project / "site" / "index.html").write_text(text)


def test_deploy_on_any_node_is_served_by_all(machines: Machines) -> None:
    first, _, third = machines.servers
    change_page(machines, "two")
    deployed = run(machines.project, machines.environ_at(2), "deploy")
    assert deployed.returncode == 0, deployed.stderr
    for server in (first, third):
        until(lambda server=server: server.get().text == "two")
    names = run(machines.project, machines.environ_at(3), "secret", "list")
    assert names.stdout.split() == ["KEY"]


def test_two_nodes_that_change_one_project_at_once_activate_one(machines: Machines) -> None:
    headers = {"authorization": f"Bearer {machines.token}"}
    with ThreadPoolExecutor() as threads, httpx.Client(headers=headers, timeout=60) as client:
        controls = [server.control for server in machines.servers]
        listed = client.get(f"{controls[0]}/v1/projects/shop/deployments").json()
        older = listed["deployments"][-1]["id"]
        plan = client.get(f"{controls[1]}/v1/projects/shop/deployments/{older}/rollback").json()
        body = {"deployment": older, "revision": plan["revision"]}
        answers = list(
            threads.map(lambda url: client.post(f"{url}/v1/projects/shop/rollback", json=body), controls)
        )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"conflict"}
    for server in machines.servers:
        until(lambda server=server: server.get().text == "one")


def test_fourth_node_is_an_agent_that_serves_and_deploys(machines: Machines) -> None:
    printed = run(machines.project, machines.environ, "fleet", "token", "--data", str(machines.root / "m2"))
    agent = machines.join(4, printed.stdout.strip())
    try:
        assert agent.get().text == "one"
        assert not (machines.root / "m4" / "fleet" / "nats").exists()
        change_page(machines, "agent")
        deployed = run(machines.project, {**machines.environ_at(1), "SVC_URL": agent.control}, "deploy")
        assert deployed.returncode == 0, deployed.stderr
        for server in machines.servers:
            until(lambda server=server: server.get().text == "agent")
    finally:
        agent.process.kill()
        agent.process.communicate()
    until(lambda: [node["present"] for node in machines.fleet("status")["nodes"]].count(False) == 1)  # type: ignore[attr-defined]


def test_failed_logins_count_on_all_nodes(machines: Machines) -> None:
    body = {"user": "ann", "password": "wrong password"}
    statuses = []
    while 429 not in statuses and len(statuses) < 12:  # Pauses double, until one exceeds the time of a login.
        control = machines.servers[len(statuses) % 3].control
        statuses.append(httpx.post(f"{control}/v1/login", json=body, timeout=60).status_code)
    assert statuses[:5] == [401] * 5
    assert statuses[-1] == 429


def test_fleet_continues_when_a_node_is_killed_and_takes_it_back(machines: Machines) -> None:
    first, _, third = machines.servers
    first.process.send_signal(signal.SIGKILL)
    first.process.communicate()
    change_page(machines, "three")
    deployed = run(machines.project, machines.environ_at(2), "deploy")
    assert deployed.returncode == 0, deployed.stderr
    until(lambda: third.get().text == "three")
    until(lambda: [node["present"] for node in machines.fleet("status", node=2)["nodes"]].count(False) == 2)
    refused = run(machines.project, machines.environ, "login", "--data", str(machines.root / "m1"))
    assert refused.returncode == 1
    assert "is the node n1-" in refused.stderr
    machines.servers[0] = Server(machines.root / "m1", machines.environ)
    assert machines.servers[0].get().text == "three"
    assert (machines.root / "m1" / "moved").exists()
    with pytest.raises(BucketError, match="was moved to the fleet"):
        layout.prepare(machines.root / "m1")
    for server in machines.servers:
        assert server.stop() == 0
