"""Jobs run at least once over kills; tries, keys, limits, and jobs that change themselves."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SvcError
from engine.http.exchange import MemoryExchange, Request
from engine.job_store import Ended, StoredJob
from engine.jobs.runner import AT_ONCE
from engine.manifest.model import Project, Resource
from engine.quota import Quota, Quotas
from engine.wasm.execution.background import BackgroundShare
from tests.engine.jobs.world import NAME, SHOP, World, pool
from tests.support.examples import examples

KILLS = examples(300)
INSERT = "INSERT INTO _svc_jobs_add (resource, path, body, key) VALUES ('worker', $1, $2, $3)"


def play(folder: Path, test: Callable[[World], Awaitable[None]]) -> World:
    async def run() -> World:
        world = World(folder)
        try:
            await test(world)
        finally:
            await world.aclose()
        return world

    return asyncio.run(run())


def failing(status: int, **fields: str) -> Callable[[World, MemoryExchange], Awaitable[None]]:
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]

    async def fail(_world: World, exchange: MemoryExchange) -> None:
        await exchange.send_head(status, headers)

    return fail


@pytest.mark.slow
def test_no_job_is_lost_over_kills_and_only_one_that_had_begun_runs_again(tmp_path: Path) -> None:
    chosen = random.Random(20261129)

    async def test(world: World) -> None:
        added: list[str] = []
        world.retries = False

        async def stopped() -> bool:
            return world.killed.is_set() or await world.idle()

        for _ in range(KILLS):
            added += [await world.add(max_tries=100) for _ in range(chosen.randrange(3))]
            world.start()
            world.steps = chosen.randrange(1, 60)
            await world.until(stopped)
            await world.kill()
        world.steps = -1
        world.start()
        await world.until_idle()
        assert not (await world.store.list(limit=1))[1]
        assert set(world.ended) == set(added) == set(world.begun)
        assert sum(world.begun.values()) > len(added)

    play(tmp_path, test)


def test_a_job_exists_if_and_only_if_its_transaction_is_committed(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        status, failed = await world.batch((INSERT, ("/mail", "{}", None)), ("SELECT json('')", ()))
        assert status == 400, failed
        assert await world.idle()
        assert (await world.batch((INSERT, ("/mail", '{"a":1}', None))))[0] == 200
        world.start()
        await world.until_idle()
        (exchange,) = world.exchanges
        assert await exchange.body.read() == b'{"a":1}'
        fields = dict(exchange.request.headers)
        assert exchange.request.resource == (NAME, "worker") and exchange.request.method == "POST"
        assert fields[b"content-type"] == b"application/json" and fields[b"x-svc-job-try"] == b"1"

    play(tmp_path, test)


def test_a_job_that_always_fails_dies_and_can_be_run_again(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.answer = failing(500, retry_after="0")
        world.start()
        id_ = await world.add("/fail", max_tries=3)
        await world.until_idle()
        job = await world.store.find(id_)
        assert (job.state, job.tries, job.error, world.begun[id_]) == ("dead", 3, "status 500", 3)
        assert world.texts[-1].startswith(f"job {id_} /fail: try 3 of 3 is dead: status 500")
        world.answer = failing(204)
        assert await world.store.retry([id_, "none"]) == 1
        world.runner.wake(NAME)  # type: ignore[union-attr]
        await world.until_idle()
        assert world.begun[id_] == 4 and not (await world.store.list(limit=1))[0]

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("status", "state"), [(410, "dead"), (422, "dead"), (404, "waiting"), (503, "waiting")]
)
def test_status_decides_about_the_next_try(tmp_path: Path, status: int, state: str) -> None:
    async def test(world: World) -> None:
        world.answer = failing(status)
        world.start()
        id_ = await world.add("/fail")

        async def failed() -> bool:
            return (await world.store.find(id_)).error != ""

        await world.until(failed)
        job = await world.store.find(id_)
        assert (job.state, job.tries, job.error) == (state, 1, f"status {status}")
        if state == "waiting":
            due, added = map(datetime.fromisoformat, (job.due, job.added))
            assert 5 <= (due - added).total_seconds() < 60

    play(tmp_path, test)


def test_retry_after_can_be_a_date(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.answer = failing(503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")
        world.start()
        id_ = await world.add("/fail", max_tries=2)
        await world.until_idle()
        assert (await world.store.find(id_)).state == "dead"

    play(tmp_path, test)


def test_a_job_can_remove_itself_and_add_itself(tmp_path: Path) -> None:
    async def answer(world: World, exchange: MemoryExchange) -> None:
        id_ = dict(exchange.request.headers)[b"x-svc-job"].decode()
        if exchange.request.path == "/remove":
            assert await world.ask("jobs", "/v1/remove", {"id": id_}) == (200, {"removed": True})
            await exchange.send_head(500, [])
            return
        if len(world.begun) < 5:
            await world.add("/again", key="again")  # The key of the running job.
        await exchange.send_head(204, [])

    async def test(world: World) -> None:
        world.answer = answer
        world.start()
        await world.add("/remove")
        await world.until_idle()
        assert sum(world.begun.values()) == 1
        world.begun.clear()
        await world.add("/again", key="again")
        await world.until_idle()
        assert len(world.begun) == 5

    play(tmp_path, test)


def test_a_key_holds_back_jobs_that_wait(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        first = await world.add(key="a", delay_s=3600)
        assert await world.ask("jobs", "/v1/add", {"path": "/b", "key": "a"}) == (
            200,
            {"id": first, "added": False},
        )
        assert await world.ask("jobs", "/v1/remove", {"key": "a"}) == (200, {"removed": True})
        assert await world.add(key="a") != first
        (claimed,), _ = await world.store.claim(".x", until=2**50, count=5)
        later = await world.add(key="a", delay_s=60)
        await world.store.end(".x", Ended(claimed.id, due=1, error="status 500"))
        listed, _ = await world.store.list(limit=9)
        assert [job.id for job in listed] == [later]

    play(tmp_path, test)


def test_body_of_a_mebibyte_arrives(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.start()
        await world.add(body="ü" * (1 << 19))
        await world.until_idle()
        assert await world.exchanges[0].body.read() == ("ü" * (1 << 19)).encode()
        status, problem = await world.ask("jobs", "/v1/add", {"path": "/", "body": "x" * ((1 << 20) + 1)})
        assert (status, problem["code"]) == (400, "bad-request") and "1,048,577 bytes" in problem["detail"]

    play(tmp_path, test)


def test_missing_resource_is_named_and_a_removed_project_runs_no_jobs(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.start()
        id_ = await world.add("/x", resource="other", max_tries=1)
        await world.until_idle()
        assert (await world.store.find(id_)).error == "shop has no resource other"
        world.projects = {}
        waiting = await world.add()
        await asyncio.sleep(0.05)
        assert not world.begun
        world.projects = {NAME: SHOP}
        assert world.runner is not None
        world.runner.served(NAME)
        await world.until_idle()
        assert world.begun == {waiting: 1}

    play(tmp_path, test)


def test_jobs_at_the_limit_are_refused_with_their_rows(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        first = await world.add(delay_s=3600)
        count = {"sql": "UPDATE _svc_jobs_count SET n = n + 99999"}
        assert (await world.ask("tables", "/v1/exec", count))[1]["code"] == "not-allowed"
        assert (await world.ask("tables", "/v1/exec", count, trusted=True))[0] == 200
        assert (await world.ask("tables", "/v1/exec", count))[1]["code"] == "not-allowed"
        status, problem = await world.ask("jobs", "/v1/add", {"path": "/mail"})
        assert (status, problem["code"]) == (429, "jobs-full")
        assert "100,000 jobs" in problem["detail"] and "svc jobs remove" in problem["hint"]
        status, problem = await world.batch((INSERT, ("/mail", "{}", None)))
        assert status == 409 and problem["detail"].startswith("jobs-full: the project has 100,000 jobs. Add ")
        assert (await world.store.list(limit=2))[1] == {"waiting": 1}
        assert await world.store.remove([first]) == 1
        await world.add()

    play(tmp_path, test)


def test_all_jobs_of_a_state_are_removed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doors.jobs.door.PIECE", 2)

    async def test(world: World) -> None:
        assert await world.store.remove(None, "waiting") == 0
        for _ in range(5):
            await world.add(delay_s=3600)
        await world.add()
        (claimed,), _ = await world.store.claim(".x", until=2**50, count=5)
        assert await world.store.remove(None) == 0
        assert await world.store.remove(None, "waiting") == 5
        assert [job.id for job in (await world.store.list(limit=9))[0]] == [claimed.id]

    play(tmp_path, test)


def test_a_node_runs_the_jobs_of_one_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.jobs.runner.FLEET_SECONDS", 0.01)
    present = {"a", "b"}

    async def test(world: World) -> None:
        world.start("a", lambda: set(present))
        await asyncio.sleep(0.05)
        runner, world.runner = world.runner, None  # The other node writes, and its runner gets to know.
        id_ = await world.add()
        await asyncio.sleep(0.05)
        world.runner = runner
        assert not world.begun
        present.discard("b")
        await world.until_idle()
        assert world.begun == {id_: 1}

    play(tmp_path, test)


def test_jobs_of_a_claim_that_was_not_confirmed_run_with_all_their_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.jobs.runner.RETRY_SECONDS", 0.01)
    finish = asyncio.Event()

    async def answer(_world: World, exchange: MemoryExchange) -> None:
        await finish.wait()
        await exchange.send_head(204, [])

    async def test(world: World) -> None:
        world.answer = answer
        world.start()
        running = await world.add("/a", max_tries=1)

        async def begun(count: int) -> bool:
            return len(world.begun) == count

        await world.until(lambda: begun(1))
        world.unanswered = 1
        claimed = await world.add("/b", max_tries=1)
        await world.until(lambda: begun(2))
        finish.set()
        await world.until_idle()
        assert world.begun == {running: 1, claimed: 1} and not (await world.store.list(limit=1))[0]

    play(tmp_path, test)


def test_slow_look_at_other_jobs_does_not_stop_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.jobs.runner.BUSY_SECONDS", 0.001)

    async def test(world: World) -> None:
        claim, claiming, looking = world.store.claim, asyncio.Event(), asyncio.Event()

        async def slow_claim(owner: str, *, until: int, count: int) -> tuple[Sequence[StoredJob], int | None]:
            await claiming.wait()
            return await claim(owner, until=until, count=count)

        async def slow_look() -> int | None:
            looking.set()
            await asyncio.sleep(0.01)
            return None

        await world.add()
        world.start()
        monkeypatch.setattr(world.store, "claim", slow_claim)
        await asyncio.sleep(0.01)
        monkeypatch.setattr(world.store, "next_due", slow_look)
        assert world.runner is not None
        world.runner.served(NAME)
        await looking.wait()
        world.runner.wake(NAME)  # It is due while the claim before waits.
        await asyncio.sleep(0.02)
        claiming.set()
        await world.until_idle()

    play(tmp_path, test)


def test_jobs_that_cannot_be_looked_up_at_the_start_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreadable() -> int | None:
        raise SvcError("cannot use the tables: too many open files")

    async def test(world: World) -> None:
        await world.add()
        monkeypatch.setattr(world.store, "next_due", unreadable)
        world.start()
        await world.until_idle()
        assert sum(world.ended.values()) == 1

    play(tmp_path, test)


def test_disk_that_stays_full_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine.jobs.runner.RETRY_SECONDS", 0.01)
    left = {"claim": 4, "end": 4}

    async def test(world: World) -> None:
        def full(name: str) -> Callable[..., Awaitable[Any]]:
            call = getattr(world.store, name)

            async def failing(*given: Any, **named: Any) -> Any:
                left[name] -= 1
                if left[name] >= 0:
                    raise SvcError("the disk is full")
                return await call(*given, **named)

            return failing

        for name in left:
            monkeypatch.setattr(world.store, name, full(name))
        id_ = await world.add()
        world.start()
        await world.until_idle()
        assert [record.getMessage() for record in caplog.records] == [
            "the jobs of shop do not run: the disk is full",
            f"the end of the job {id_} of shop is not stored: the disk is full",
        ]
        left["claim"] = 1
        await world.add()
        await world.until_idle()
        assert [record.getMessage() for record in caplog.records[2:]] == [
            "the jobs of shop do not run: the disk is full"
        ]

    play(tmp_path, test)


def test_clock_that_jumps_ahead_and_a_deploy_do_not_touch_a_try_that_runs(tmp_path: Path) -> None:
    finish = asyncio.Event()

    async def answer(_world: World, exchange: MemoryExchange) -> None:
        await finish.wait()
        await exchange.send_head(204, [])

    async def test(world: World) -> None:
        async def begun(count: int) -> bool:
            return len(world.begun) == count

        world.answer = answer
        world.start()
        running = await world.add()
        await world.until(lambda: begun(1))
        past = {"sql": "UPDATE _svc_jobs SET due = 1"}  # The clock is beyond the end of the claim.
        assert (await world.ask("tables", "/v1/exec", past, trusted=True))[0] == 200
        world.projects = {NAME: Project(NAME, Path("/"), {"other": Resource("other", "js", Path("/"))})}
        again = await world.add(resource="other")
        await world.until(lambda: begun(2))
        late = await world.add(max_tries=1)
        finish.set()
        await world.until_idle()
        assert world.begun == {running: 1, again: 1}
        dead, _ = await world.store.list(limit=9)
        assert [(job.id, job.error) for job in dead] == [(late, "shop has no resource worker")]

    play(tmp_path, test)


@pytest.mark.parametrize("body", ["\ud800" * 9, "\0" * (1 << 20), '"' * (1 << 20)])
def test_odd_text_arrives_or_is_refused(tmp_path: Path, body: str) -> None:
    async def test(world: World) -> None:
        world.start()
        status, document = await world.ask("jobs", "/v1/add", {"path": "/", "body": body})
        await world.until_idle()
        if status == 200:
            assert await world.exchanges[0].body.read() == body.encode("utf-8")
        else:
            assert (status, document["code"]) == (400, "bad-request"), document

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", "x'00'"),
        ("id", "7"),
        ("id", "'a' || char(10) || 'x-a: b'"),
        ("resource", "CAST(x'ff' AS TEXT)"),
        ("resource", "'worker' || char(0)"),
        ("path", "'/a' || char(0) || hex(zeroblob(2000))"),
        ("path", "CAST(x'2fff' AS TEXT)"),
        ("path", "'/a#b'"),
        ("key", "'a' || char(0) || hex(zeroblob(2000))"),
    ],
)
def test_value_that_no_request_can_have_is_refused(tmp_path: Path, column: str, value: str) -> None:
    async def test(world: World) -> None:
        values = {"resource": "'worker'", "path": "'/a'"} | {column: value}
        insert = f"INSERT INTO _svc_jobs_add ({', '.join(values)}) VALUES ({', '.join(values.values())})"
        status, document = await world.batch((insert, ()))
        assert status == 409 and document["detail"].startswith(f"job: {column} "), document

    play(tmp_path, test)


@pytest.mark.parametrize("conflict", ["", "OR REPLACE ", "OR IGNORE "])
def test_id_of_another_job_is_refused_and_not_counted(tmp_path: Path, conflict: str) -> None:
    into = "INTO _svc_jobs_add (id, resource, path, delay_s) VALUES ('0123456789abcdef', 'worker', '/a', 60)"

    async def test(world: World) -> None:
        assert (await world.batch((f"INSERT {into}", ())))[0] == 200
        status, document = await world.batch((f"INSERT {conflict}{into}", ()))
        assert (status, document["detail"]) == (409, "job: id is that of another job")
        count = {"sql": "SELECT n FROM _svc_jobs_count"}
        assert (await world.ask("tables", "/v1/exec", count, trusted=True))[1]["rows"] == [{"n": 1}]

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("members", "detail"),
    [
        ({"path": None}, "path is not a text that begins with /"),
        ({"path": ["/a"]}, "path is an object or an array"),
        ({"path": "/a" * 1025}, "path has more than 2048 characters"),
        ({"resource": 5}, "resource is not the name of a resource"),
        ({"key": ""}, "key is not a text of 1 to 255 characters"),
        ({"delay_s": "soon"}, "delay_s is not a number"),
        ({"max_tries": 0}, "max_tries is not a whole number from 1 to 100"),
        ({"body": 5}, "body is not a text"),
        ({"body": "", "base64": ""}, "the document has both body and base64"),
        ({"base64": 5}, "base64 is not base64"),
        ({"tries": 5}, "there is no member tries"),
        ({"key": "\ud800"}, "key has half of a surrogate pair"),
        ({"body": "\ud83c"}, "body has half of a surrogate pair"),
        ({"delay_s": float("nan")}, "delay_s is not a number of 64 bits"),
        ({"delay_s": float("inf")}, "delay_s is not a number of 64 bits"),
        ({"max_tries": 1 << 64}, "max_tries is not a number of 64 bits"),
    ],
)
def test_member_that_is_not_valid_is_named(tmp_path: Path, members: dict[str, Any], detail: str) -> None:
    async def test(world: World) -> None:
        status, problem = await world.ask("jobs", "/v1/add", {"path": "/a", **members})
        assert (status, problem["type"]) == (400, "urn:svc:problem:jobs:bad-request") and problem["hint"]
        assert problem["detail"].startswith(detail)

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("document", "detail"),
    [
        ({}, "id is not a text"),
        ({"id": 5}, "id is not a text"),
        ({"key": None}, "key is not a text"),
        ({"id": "a", "key": "a"}, "the document has both id and key"),
        ({"key": "\ud800"}, "key has half of a surrogate pair"),
    ],
)
def test_removal_that_is_not_valid_is_refused(tmp_path: Path, document: dict[str, Any], detail: str) -> None:
    async def test(world: World) -> None:
        status, problem = await world.ask("jobs", "/v1/remove", document)
        assert (status, problem["type"]) == (400, "urn:svc:problem:jobs:bad-request") and problem["hint"]
        assert problem["detail"] == detail

    play(tmp_path, test)


def test_key_that_is_not_utf8_stops_no_jobs(tmp_path: Path) -> None:
    insert = "INSERT INTO _svc_jobs_add (resource, path, key) VALUES ('worker', '/a', CAST(x'61ff' AS TEXT))"

    async def test(world: World) -> None:
        assert (await world.batch((insert, ())))[0] == 200
        assert [job.key for job in (await world.store.list(limit=9))[0]] == ["a\ufffd"]
        world.start()
        await world.add("/b")
        await world.until_idle()
        assert sorted(each.request.path for each in world.exchanges) == ["/a", "/b"]

    play(tmp_path, test)


def test_many_jobs_run_a_few_at_once(tmp_path: Path) -> None:
    async def answer(_world: World, exchange: MemoryExchange) -> None:
        await asyncio.sleep(0.01)
        await exchange.send_head(204, [])

    async def test(world: World) -> None:
        world.answer = answer
        statements = [(INSERT, ("/mail", "{}", None)) for _ in range(300)]
        assert (await world.batch(*statements))[0] == 200
        world.start()
        await world.until_idle()
        assert len(world.begun) == 300 and 1 < world.most <= AT_ONCE

    play(tmp_path, test)


def test_background_runs_have_half_of_the_instances_of_a_project() -> None:
    async def test() -> None:
        quotas = Quotas()
        share = BackgroundShare(pool(), quotas)
        assert share.free("shop") == 32
        quotas.set("shop", Quota(instances=4))
        assert (share.free("shop"), share.free("blog")) == (2, 32)
        async with share.run("shop"), share.run("shop"):
            waiting = asyncio.create_task(share.run("shop").__aenter__())
            await asyncio.sleep(0)
            assert share.free("shop") == 0 and not waiting.done()
        await waiting
        assert share.free("shop") == 1
        quotas.set("shop", Quota(instances=1))
        assert BackgroundShare(pool(), quotas).free("shop") == 1

    asyncio.run(test())


def test_background_runs_begin_one_by_one_between_requests() -> None:
    async def test() -> None:
        share, begun, between = BackgroundShare(pool(), Quotas()), 0, list[int]()

        async def run() -> None:
            nonlocal begun
            async with share.run("shop"):
                begun += 1

        runs = asyncio.gather(*(run() for _ in range(9)))
        while not runs.done():
            before = begun
            await asyncio.sleep(0)
            between.append(begun - before)
        assert begun == 9 and max(between) == 1

    asyncio.run(test())


def test_response_without_a_client_leaves_a_turn_to_others() -> None:
    async def test() -> None:
        head = Request(method="GET", scheme="http", path="/", query=b"", headers=[])
        other = asyncio.create_task(asyncio.sleep(0))
        await asyncio.sleep(0)
        await MemoryExchange(head).send_body(b"done", end=True)
        assert other.done()

    asyncio.run(test())
