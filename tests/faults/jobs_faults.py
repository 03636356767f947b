"""Jobs under faults: applications add them through all nodes, while the nodes that run them are killed."""

import secrets
from collections.abc import Callable
from functools import partial

import httpx

from tests.faults.applications import body_of
from tests.faults.faulty_fleet import FaultyFleet
from tests.faults.tables_faults import tables_of
from tests.support.waiting import until

JOBS = 40
"""Jobs that each addition has: those with an odd number are due after 1 to 5 s."""
DONE_SECONDS = 240.0
"""Longer than the time limit of a run and a minute, and some pauses between tries."""
ADD = (
    "INSERT INTO _svc_jobs_add (resource, path, delay_s, body)"
    f" WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {JOBS})"
    " SELECT $1, '/', i % 2 * (1 + i % 5), 'exec' || char(9, 9, 10)"
    " || 'INSERT INTO ran (name) VALUES ($1)' || char(9) || $2 || '-' || i FROM n"
)
"""Adds jobs whose body is a request to an application."""


def jobs_under_kills(fleet: FaultyFleet) -> None:
    """Kill the writer, which runs jobs, the leader, all nats-servers, and all nodes, while jobs run."""
    faults: tuple[Callable[[], None], ...] = (
        lambda: fleet.kill(fleet.writer()),
        lambda: fleet.kill(fleet.leader()),
        lambda: fleet.kill_servers(*fleet.alive),
        lambda: fleet.kill(fleet.writer()),
        lambda: fleet.kill(*fleet.alive),
    )
    run, added = secrets.token_hex(4), 0
    with tables_of(fleet) as tables:
        create = {"sql": "CREATE TABLE IF NOT EXISTS ran (id INTEGER PRIMARY KEY, name TEXT)", "write": True}
        _send(lambda: tables.nodes.sql(fleet.alive[0], create))
        for number, fault in enumerate(faults):
            for node in fleet.alive:
                for lane in fleet.applications:
                    name = f"{run}-{number}-{node}-{lane}"
                    body = body_of("exec", (ADD, lane, name), key=name)
                    _send(partial(tables.nodes.application, node, lane, body))
                    added += JOBS
            fault()
        counts = "SELECT count(DISTINCT name) || ' ' || count(*) AS found FROM ran WHERE name GLOB $1"

        def all_ran() -> bool:
            body = body_of("query", (counts, f"{run}-*"))
            try:
                answer = tables.nodes.application(fleet.alive[0], fleet.applications[0], body)
            except httpx.TransportError:
                return False
            return answer.text.startswith(f"{added} ")

        try:
            until(all_ran, DONE_SECONDS)
        finally:
            done, runs = map(int, tables.everywhere(counts, f"{run}-*").split())
            print(f"jobs added={added} done={done} twice={runs - done}", flush=True)


def _send(ask: Callable[[], httpx.Response]) -> None:
    """Send a request that may be repeated until it is answered definitely, with success."""

    def answered() -> bool:
        try:
            answer = ask()
        except (httpx.TransportError, OSError):
            return False
        assert answer.is_success or any(code in answer.text for code in ("unavailable", "busy")), answer.text
        return answer.is_success

    until(answered, DONE_SECONDS)
