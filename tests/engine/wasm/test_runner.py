import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.wasm.execution.buffers import BUFFER_BYTES
from engine.wasm.execution.config import MIB, PoolSettings
from tests.support.guest_client import Answer, Client

pytestmark = pytest.mark.slow
Serve = Callable[..., Any]


def ask(
    serve: Serve, target: str, client: Client | None = None, method: str = "GET", **fields: Any
) -> Answer:
    answer: Answer = serve(lambda guest, runner: (client or Client()).call(guest, target, method), **fields)
    return answer


def test_plain_response_is_metered(serve: Serve) -> None:
    answer = ask(serve, "/hello")
    assert (answer.status, answer.body, answer.ended) == (200, b"hello\n", True)
    assert answer.headers[b"content-length"] == b"6"
    report = answer.report
    assert report.outcome == "ok" and report.complete
    assert 0 < report.compute_ns <= report.wall_ns
    assert report.peak_memory is not None and report.peak_memory > 1 * MIB
    assert (report.bytes_in, report.bytes_out) == (0, 6)


def test_runs_share_no_state(serve: Serve) -> None:
    async def twice(guest: Any, _runner: Any) -> list[bytes]:
        return [(await Client().call(guest, "/count")).body for _ in range(3)]

    assert serve(twice) == [b"1", b"1", b"1"]


def test_method_path_and_query_are_passed_through(serve: Serve) -> None:
    answer = ask(serve, "/method?q=%20a/b", method="PURGE")
    assert answer.body == b"PURGE http://api.localhost/method?q=%20a/b"


def test_environment_has_manifest_and_platform_variables(serve: Serve) -> None:
    import json

    env = json.loads(ask(serve, "/env", env={"COLOUR": "blue"}).body)
    assert env == {"COLOUR": "blue", "SVC_PROJECT": "test", "SVC_REQUEST_ID": "request-1"}


def test_upload_round_trips(serve: Serve) -> None:
    pieces = [bytes(range(256)) * 256 for _ in range(16)]
    answer = ask(serve, "/echo", Client(pieces), "POST")
    assert answer.body == b"".join(pieces)
    assert answer.report.bytes_in == answer.report.bytes_out == 1 << 20


def test_events_are_sent_when_written(serve: Serve) -> None:
    async def timed(guest: Any, _runner: Any) -> tuple[Answer, list[float]]:
        times: list[float] = []

        async def note() -> None:
            times.append(time.perf_counter())

        return await Client(pause=note).call(guest, "/ticks"), times

    answer, times = serve(timed)
    assert answer.chunks == [b"data: %d\n\n" % i for i in range(4)]
    gaps = [after - before for before, after in pairwise(times[1:])]
    assert all(gap > 0.05 for gap in gaps[:3])


def test_lines_are_captured_per_stream(serve: Serve) -> None:
    answer = ask(serve, "/log")
    assert answer.lines == [("stdout", "to stdout"), ("stderr", "to stderr")]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("/throw", "thrown on purpose"),
        ("/reject", "rejected on purpose"),
        ("/nothing", "Response"),
        ("/recurse", "too much recursion"),
    ],
)
def test_failure_before_response_is_reported(serve: Serve, target: str, says: str) -> None:
    answer = ask(serve, target)
    assert answer.status is None and answer.report.status is None
    assert answer.report.outcome == "guest-failed"
    assert says in answer.report.detail
    assert any(stream == "stderr" and says in text for stream, text in answer.lines)


def test_failure_during_stream_is_reported(serve: Serve) -> None:
    answer = ask(serve, "/late")
    assert answer.status == 200 and answer.body == b"first\n"
    assert not answer.ended and not answer.report.complete
    assert answer.report.outcome == "guest-failed"
    assert "failed half-way" in answer.report.detail


@pytest.mark.parametrize("target", ["/loop", "/sleep", "/forever"])
def test_run_limit_stops_computing_waiting_and_streaming(serve: Serve, target: str) -> None:
    answer = ask(serve, target, run_limit_secs=1)
    assert answer.report.outcome == "run-limit"
    assert 1e9 <= answer.report.wall_ns < 30e9


def test_each_run_ends_at_its_own_limit(serve: Serve, artifact: ComponentArtifact) -> None:
    async def beside(slow: Any, runner: Any) -> list[Any]:
        leave = asyncio.Event()
        long = asyncio.create_task(Client(leave=leave).call(slow, "/forever"))
        resource = replace(slow.resource, run_limit_secs=1)
        quick = await runner.guest(
            resource, artifact, {"SVC_PROJECT": "test"}, fast=True, report=lambda line: None
        )
        observed = [(await Client().call(quick, "/sleep")).report for _ in range(2)]
        assert not long.done()
        leave.set()
        return [*observed, (await long).report]

    first, second, last = serve(beside, run_limit_secs=300)
    assert [first.outcome, second.outcome, last.outcome] == ["run-limit", "run-limit", "client-gone"]
    assert max(first.wall_ns, second.wall_ns) < 30e9


def test_memory_limit_has_its_own_outcome(serve: Serve) -> None:
    answer = ask(serve, "/allocate", memory_limit_mb=64)
    assert answer.report.outcome == "memory-limit"
    assert "memory_limit_mb" in answer.report.detail


def test_head_response_may_declare_length_without_body(serve: Serve) -> None:
    answer = ask(serve, "/announced", method="HEAD")
    assert answer.report.outcome == "ok"
    assert answer.headers[b"content-length"] == b"5"
    assert ask(serve, "/announced").report.outcome == "guest-failed"


def test_head_response_gets_length_only_with_body(serve: Serve) -> None:
    assert ask(serve, "/hello", method="HEAD").headers[b"content-length"] == b"6"
    assert b"content-length" not in ask(serve, "/empty", method="HEAD").headers
    assert ask(serve, "/empty").headers[b"content-length"] == b"0"


def test_client_disconnect_stops_guest(serve: Serve) -> None:
    answer = ask(serve, "/forever", Client(leave_after=2))
    assert answer.report.outcome == "client-gone"
    assert answer.report.wall_ns < 25e9  # Before its run limit.


def test_head_in_progress_is_sent_after_stop(serve: Serve) -> None:
    leave = asyncio.Event()

    async def pause() -> None:
        leave.set()
        for _ in range(10):
            await asyncio.sleep(0)

    answer = ask(serve, "/later", Client(leave=leave, pause=pause))
    assert answer.report.outcome == "client-gone"
    assert answer.status == answer.report.status == 200


def test_request_body_above_limit_is_rejected(serve: Serve) -> None:
    answer = ask(serve, "/length", Client([bytes(60000)] * 4, max_body=100_000), "POST")
    assert answer.report.outcome == "body-too-large" and answer.status is None


def test_slow_reader_applies_backpressure(serve: Serve) -> None:
    async def slow(guest: Any, _runner: Any) -> Answer:
        async def pause() -> None:
            await asyncio.sleep(0.005)

        return await Client(pause=pause).call(guest, "/big")

    answer = serve(slow)
    assert len(answer.body) == 3_000_000 and answer.ended
    assert max(map(len, answer.chunks)) <= BUFFER_BYTES


@pytest.mark.alone
def test_heavy_guest_does_not_block_others(serve: Serve) -> None:
    async def both(guest: Any, _runner: Any) -> tuple[Answer, list[int]]:
        heavy = asyncio.create_task(Client().call(guest, "/burn"))
        await asyncio.sleep(0)
        light = [(await Client().call(guest, "/hello")).report.wall_ns for _ in range(10)]
        assert not heavy.done()
        return await heavy, light

    heavy, light = serve(both)
    assert heavy.body == b"burnt"
    assert heavy.report.compute_ns > 10e6
    assert sorted(light)[5] < 60e6


def test_requests_above_instances_queue_then_are_rejected(serve: Serve) -> None:
    async def crowd(guest: Any, _runner: Any) -> list[str]:
        answers = await asyncio.gather(*[Client().call(guest, "/ticks") for _ in range(8)])
        return sorted(answer.report.outcome for answer in answers)

    outcomes = serve(crowd, pool=PoolSettings(instances=2), queue=4)
    assert outcomes == ["ok"] * 6 + ["overloaded"] * 2


def test_burst_of_requests_is_answered_in_turn(serve: Serve) -> None:
    async def crowd(guest: Any, _runner: Any) -> int:
        answered: list[int] = []

        async def pause() -> None:
            if not received:
                received.append(asyncio.get_running_loop().call_soon(lambda: answered.append(len(received))))
            received.append(None)

        received: list[Any] = []
        await asyncio.gather(*[Client(pause=pause).call(guest, "/hello") for _ in range(200)])
        return answered[0]

    assert serve(crowd) < 200


def test_two_hundred_streams_share_threads(serve: Serve) -> None:
    others = set(threading.enumerate())

    async def crowd(guest: Any, _runner: Any) -> tuple[list[Answer], int]:
        started: set[int] = set()
        everyone = asyncio.Event()

        def client(number: int) -> Client:
            async def first() -> None:
                started.add(number)
                if len(started) == 200:
                    everyone.set()

            return Client(pause=first)

        calls = [asyncio.create_task(client(number).call(guest, "/ticks")) for number in range(200)]
        await everyone.wait()
        threads = len(set(threading.enumerate()) - others)
        return await asyncio.gather(*calls), threads

    answers, threads = serve(crowd, run_limit_secs=300)
    assert {answer.report.outcome for answer in answers} == {"ok"}
    assert {answer.body.count(b"data: ") for answer in answers} == {4}
    assert threads < 11


def test_stop_all_ends_every_run(serve: Serve) -> None:
    async def stop(guest: Any, runner: Any) -> list[str]:
        calls = [
            asyncio.create_task(Client().call(guest, target)) for target in ("/forever", "/loop", "/sleep")
        ]
        await asyncio.sleep(0.2)
        runner.stop_all()
        return [(await call).report.outcome for call in calls]

    assert serve(stop) == ["stopping"] * 3


class Peer(BaseHTTPRequestHandler):
    """The upstream server of the outgoing tests. Requests to `/together` are answered when all five wait."""

    server: "PeerServer"
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/together":
            self.server.all_there.wait()
        self.reply(b"peer got " + self.path.encode())

    def do_POST(self) -> None:
        if "content-length" in self.headers:
            body = self.rfile.read(int(self.headers["content-length"]))
        else:
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.reply(body + b" with " + self.headers["x-mine"].encode())

    def reply(self, body: bytes) -> None:
        self.send_response(201)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


class PeerServer(ThreadingHTTPServer):
    all_there = threading.Barrier(5, timeout=60)


@pytest.fixture
def peer() -> Any:
    server = PeerServer(("127.0.0.1", 0), Peer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_allowed_egress_call_succeeds(serve: Serve, peer: str) -> None:
    answer = ask(serve, f"/fetch?url={peer}/x%3Fy=1", egress=(peer,))
    assert answer.body == b"201 peer got /x?y=1"
    (call,) = answer.calls
    assert (call.kind, call.name, call.status, call.code) == ("fetch", f"GET {peer}", 201, "")
    assert (details := call.details) and details["bytes_in"] == len("peer got /x?y=1")
    assert 0 < details["connect_ns"] <= details["first_byte_ns"] <= call.wall_ns  # type: ignore[operator]


def test_call_by_name_measures_the_lookup(serve: Serve, peer: str) -> None:
    peer = peer.replace("127.0.0.1", "localhost")
    assert ask(serve, f"/fetch?url={peer}/x", egress=(peer,)).calls[0].details["dns_ns"] > 0  # type: ignore


def test_guest_sends_request_body(serve: Serve, peer: str) -> None:
    assert ask(serve, f"/post?url={peer}/", egress=(peer,)).body == b"sent by a guest with yes"


def test_outgoing_calls_run_concurrently(serve: Serve, peer: str) -> None:
    answer = ask(serve, f"/fetches?url={peer}/together", egress=(peer,), run_limit_secs=60)
    assert answer.body == b"peer got /together" * 5


def test_denied_egress_call_logs_line_to_add(serve: Serve, peer: str) -> None:
    answer = ask(serve, f"/fetch?url={peer}/")
    assert answer.report.outcome == "guest-failed"
    notice = next(text for level, text in answer.lines if level == "WARN")
    assert f'egress = ["{peer}"]' in notice
    assert [call.code for call in answer.calls] == ["denied"]


def test_unreachable_peer_is_an_error_for_the_guest(serve: Serve) -> None:
    answer = ask(serve, "/fetch?url=http://127.0.0.1:9/", egress=("http://127.0.0.1:9",))
    assert answer.report.outcome == "guest-failed"


def test_concurrent_loads_share_component(serve: Serve, artifact: ComponentArtifact) -> None:
    async def both(_guest: Any, runner: Any) -> list[Any]:
        loads = (runner.load(artifact, fast=True, report=lambda line: None) for _ in range(2))
        return list(await asyncio.gather(*loads))

    first, second = serve(both)
    assert first is second


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how often a thread went to sleep")
def test_idle_runner_wakes_no_thread(serve: Serve) -> None:
    others = set(threading.enumerate())  # Runners of fixtures may live longer than their tests.

    async def body(guest: Any, _runner: Any) -> list[str]:
        [ticker] = [each for each in threading.enumerate() if each.name == "epoch" and each not in others]
        status = Path(f"/proc/self/task/{ticker.native_id}/status")

        def sleeps() -> str:
            return next(line for line in status.read_text().splitlines() if line.startswith("voluntary"))

        first = (await Client().call(guest, "/hello")).report.outcome
        before, now = "", sleeps()
        while before != now:  # Until it has slept for ten ticks at a stretch.
            await asyncio.sleep(0.1)
            before, now = now, sleeps()
        return [first, (await Client().call(guest, "/loop")).report.outcome]

    assert serve(body, run_limit_secs=1) == ["ok", "run-limit"]


@pytest.mark.parametrize("way", ["answered", "left", "stopped", "failed"])
def test_run_leaves_no_garbage_cycles(serve: Serve, way: str) -> None:
    """Objects of a run are freed at its end: garbage cycles cost memory and delay other requests."""

    async def body(guest: Any, runner: Any) -> int:
        async def stop_soon() -> None:
            asyncio.get_running_loop().call_soon(runner.stop_all)  # By then it waits for its next tick.

        async def rounds(count: int) -> None:
            for _ in range(count):
                if way == "answered":
                    await Client([b"x" * 100]).call(guest, "/echo", "POST")
                elif way == "failed":
                    await Client().call(guest, "/throw")
                elif way == "left":
                    await Client(leave_after=2).call(guest, "/forever")
                else:
                    await Client(pause=stop_soon).call(guest, "/forever")

        await rounds(3)
        while gc.collect():  # Former runners are freed in steps.
            pass
        gc.disable()
        try:
            await rounds(20)
            await asyncio.sleep(0)
            return gc.collect()
        finally:
            gc.enable()

    assert serve(body) == 0
