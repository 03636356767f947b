"""Limits of the crypto Door: parameters, budgets of runs, and fairness between projects."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from doors.crypto.door import QUICK_BYTES
from engine.door import DoorResponse
from engine.fair_threads import FairThreads, QueueFull
from tests.doors.crypto.crypto_door import Budget, Post, answered, answered_once, opened, request

PBKDF2 = {"algorithm": "PBKDF2", "hash": "SHA-256", "key": "", "salt": "", "length": 32}
ARGON2 = "$argon2id$v=19$m={m},t={t},p={p}$MTIzNDU2Nzg$q2r4nE/9eAbLwUzpOuKDtw"


@pytest.mark.parametrize(
    ("path", "members"),
    [
        ("derive", {**PBKDF2, "iterations": 1_000_000_000}),
        ("derive", {**PBKDF2, "iterations": 1000, "length": 1 << 40}),
        (
            "derive",
            {"algorithm": "scrypt", "key": "", "salt": "", "n": 1 << 40, "r": 8, "p": 1, "length": 32},
        ),
        ("generate", {"algorithm": "RSA", "bits": 16384, "public_exponent": 65537}),
        ("generate", {"algorithm": "RSA", "bits": 512, "public_exponent": 65537}),
        ("password/verify", {"password": "a", "hash": ARGON2.format(m=1 << 30, t=1, p=1)}),
        ("password/verify", {"password": "a", "hash": ARGON2.format(m=1 << 16, t=1 << 20, p=1)}),
        ("password/verify", {"password": "a", "hash": ARGON2.format(m=1 << 16, t=1, p=64)}),
    ],
)
def test_excessive_parameter_is_refused_at_once(post: Post, path: str, members: dict[str, Any]) -> None:
    began = time.process_time()
    status, problem = post(path, **members)
    assert (status, problem["code"]) == (422, "too-expensive")
    assert time.process_time() - began < 1


@pytest.mark.parametrize("values", [b"[],", b"1,", b"{},", b"[" * 3])
def test_large_document_of_many_values_is_refused_before_it_is_parsed(values: bytes) -> None:
    body = b'{"hash":"SHA-256","data":"","more":[' + values * 300_000 + b"1]}"
    began = time.process_time()
    answer = asyncio.run(answered_once(request("digest", body)))
    assert answer.status == 413 and json.loads(answer.body)["code"] == "too-large"
    assert time.process_time() - began < 1


def test_rsa_key_of_16384_bits_is_refused(post: Post) -> None:
    n = (1 << 16383) + 1
    spki = (
        rsa.RSAPublicNumbers(65537, n)
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    )
    status, problem = post("import", algorithm="RSA", format="spki", key=spki)
    assert (status, problem["code"]) == (400, "data-error")
    assert problem["detail"] == "the RSA key has 16384 bits; the maximum is 8192"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 60_000, b"\xff", b'{"algorithm": 1}'])
def test_body_of_another_form_is_a_bad_request(body: bytes) -> None:
    response = asyncio.run(answered_once(request("sign", body)))
    assert (response.status, json.loads(response.body)["code"]) == (400, "bad-request")


def test_unknown_path_and_method_are_problems() -> None:
    async def statuses() -> list[int]:
        door = opened()
        requests = [request("none", {}), request("sign", {}, method="GET")]
        return [(await answered(door, each)).status for each in requests]

    assert asyncio.run(statuses()) == [404, 405]


def test_long_body_of_a_derivation_is_refused(post: Post) -> None:
    status, problem = post("derive", **{**PBKDF2, "salt": "A" * QUICK_BYTES, "iterations": 1})
    assert (status, problem["code"]) == (413, "too-large")


def test_work_that_does_not_fit_the_rest_of_the_run_is_refused() -> None:
    async def codes() -> list[str]:
        door, answers = opened(), []
        for budget, path, members in (
            (Budget(0.1), "derive", {**PBKDF2, "iterations": 5_000_000}),
            (Budget(memory_limit=8 << 20), "password/hash", {"password": "a"}),
        ):
            response = await answered(door, request(path, members, budget))
            answers.append(json.loads(response.body)["code"])
            assert budget.door_cpu_ns == 0
        return answers

    assert asyncio.run(codes()) == ["too-expensive", "too-expensive"]


def charged(path: str, **members: Any) -> int:
    """The CPU time in nanoseconds that a run is charged for an operation."""
    budget = Budget()
    assert asyncio.run(answered_once(request(path, members, budget))).status == 200
    return budget.door_cpu_ns


def test_cpu_time_of_an_operation_is_charged_to_the_run() -> None:
    few, many = (charged("derive", **{**PBKDF2, "iterations": count}) for count in (20_000, 2_000_000))
    # The CPU clock of a virtual machine leaves out stolen time, so it may count nothing of a few ms.
    assert 0 <= few < many / 4


def test_cpu_time_of_all_threads_of_an_operation_is_charged() -> None:
    one, four = (
        charged("password/verify", password="a", hash=ARGON2.format(m=19456, t=2, p=lanes))
        for lanes in (1, 4)
    )
    assert four > one / 2


def test_quick_operation_is_answered_on_the_loop() -> None:
    async def kinds() -> list[bool]:
        door = opened()
        digest = request("digest", {"hash": "SHA-256", "data": ""})
        await answered(door, digest)
        answers = [door.answer(digest), door.answer(request("derive", {**PBKDF2, "iterations": 100_000}))]
        for answer in answers:
            if isinstance(answer, Awaitable):
                await answer
        await door.aclose()
        return [isinstance(answer, DoorResponse) for answer in answers]

    assert asyncio.run(kinds()) == [True, False]


def in_threads(
    body: Callable[["Work"], Awaitable[None]], threads: int, per_project: int, waiting: int
) -> list[str]:
    """Run `body` with a pool; return the order in which its work began."""

    async def main() -> list[str]:
        work = Work(FairThreads(threads, per_project, waiting))
        try:
            await body(work)
        finally:
            work.release.set()
            await asyncio.gather(*work.tasks, return_exceptions=True)
        return work.began

    return asyncio.run(main())


class Work:
    """Work of projects that waits for `release`."""

    def __init__(self, pool: FairThreads) -> None:
        self.pool = pool
        self.release = threading.Event()
        self.began: list[str] = []
        self.changed = threading.Condition()
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, project: str) -> "asyncio.Task[None]":
        def run() -> None:
            with self.changed:
                self.began.append(project)
                self.changed.notify_all()
            self.release.wait(60)

        task = asyncio.create_task(self.pool.run(project, run))
        self.tasks.append(task)
        return task

    async def settle(self, count: int) -> None:
        """Wait until `count` pieces of work began."""

        def wait() -> None:
            with self.changed:
                assert self.changed.wait_for(lambda: len(self.began) >= count, 60)

        await asyncio.to_thread(wait)


def test_project_with_much_work_leaves_threads_to_others() -> None:
    async def body(work: Work) -> None:
        for _ in range(5):
            work.start("greedy")
        await work.settle(1)
        work.start("modest")
        await work.settle(2)

    assert in_threads(body, 2, 1, 10)[:2] == ["greedy", "modest"]


def test_projects_take_turns() -> None:
    async def body(work: Work) -> None:
        for project in ("a", "a", "a", "b", "b", "c"):
            work.start(project)
            await asyncio.sleep(0)
        await work.settle(1)
        work.release.set()
        await work.settle(6)

    assert in_threads(body, 1, 1, 10) == ["a", "a", "b", "c", "a", "b"]


def test_more_waiting_work_than_allowed_is_refused() -> None:
    async def body(work: Work) -> None:
        for _ in range(3):
            work.start("a")
        await work.settle(1)
        refused = work.start("a")
        with pytest.raises(QueueFull):
            await refused
        work.start("b")
        work.release.set()
        await work.settle(4)

    assert sorted(in_threads(body, 1, 1, 2)) == ["a", "a", "a", "b"]


def test_canceled_caller_leaves_the_queue_and_running_work_occupies_its_thread() -> None:
    async def body(work: Work) -> None:
        running, waiting, last = work.start("a"), work.start("a"), work.start("a")
        await work.settle(1)
        for task in (running, waiting):
            task.cancel()
        await asyncio.sleep(0.01)
        assert work.began == ["a"] and not last.done()
        work.release.set()
        await last

    assert in_threads(body, 1, 1, 10) == ["a", "a"]
