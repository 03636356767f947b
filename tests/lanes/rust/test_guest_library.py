"""The guest library on a real engine: one program with a route per test."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Runner
from tests.lanes.rust.crate import GUEST, Crate
from tests.lanes.rust.world import BINARY, assemble
from tests.support.guest_client import Answer, Client

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("program.rs").read_text()


@pytest.fixture(scope="module")
def crate(new_crate: Callable[[], Crate]) -> Crate:
    crate = new_crate()
    crate.program(SOURCE)
    return crate


@pytest.fixture(scope="module")
def artifact(crate: Crate) -> ComponentArtifact:
    return crate.build("deploy")


Ask = Callable[..., Answer]


@pytest.fixture
def ask(crate: Crate, artifact: ComponentArtifact) -> Ask:
    return lambda target, **fields: crate.ask(artifact, target, **fields)[0]


def line(text: str) -> int:
    """Return the number of the first line that contains a text."""
    return next(i for i, found in enumerate(SOURCE.split("\n"), 1) if text in found)


def test_request_has_method_target_host_and_query(ask: Ask) -> None:
    answer = ask("/seen?name=J%C3%BCrgen+M&x", method="PURGE")
    target = "/seen?name=J%C3%BCrgen+M&x"
    assert json.loads(answer.body) == ["PURGE", target, "/seen", "api.localhost", "Jürgen M"]
    assert answer.headers[b"content-type"] == b"application/json"


def test_environment_is_read_by_std(ask: Ask) -> None:
    assert ask("/env").body == b"request-1"


@pytest.mark.parametrize("target", ["/whole", "/stream"])
def test_three_megabytes_round_trip(ask: Ask, target: str) -> None:
    pieces = [bytes((i * j) % 251 for j in range(65536)) for i in range(1, 49)]
    answer = ask(target, method="POST", body=pieces)
    assert answer.body == b"".join(pieces)
    assert answer.ended


def test_responses_have_their_status_and_body(ask: Ask) -> None:
    assert ask("/large").body == b"x" * 200_000
    empty = ask("/empty")
    assert (empty.status, empty.body, empty.ended) == (204, b"", True)
    answer = ask("/made")
    assert (answer.status, answer.headers[b"location"]) == (303, b"/")
    assert ask("/nothing").status == 404


def test_events_are_sent_one_at_a_time(ask: Ask) -> None:
    answer = ask("/events")
    assert answer.headers[b"content-type"] == b"text/event-stream"
    assert answer.headers[b"cache-control"] == b"no-cache"
    first, *rest = b"".join(answer.chunks).split(b"\n\n")
    assert first == b": hello"
    assert rest == [*(f"event: tick\nid: {n}\ndata: line {n}\ndata: more".encode() for n in (1, 2, 3)), b""]
    assert len(answer.chunks) >= 3
    assert all(chunk.endswith(b"\n\n") for chunk in answer.chunks)


def test_client_disconnect_ends_the_program_silently(ask: Ask) -> None:
    answer = ask("/forever", leave_after=3)
    assert answer.report.outcome == "client-gone"
    assert answer.lines == []


def test_one_formatted_write_is_sent_as_one_chunk(ask: Ask) -> None:
    assert ask("/pieces").chunks == [b"1 and 2", b" end"]


@pytest.mark.parametrize(
    ("target", "failure", "place"),
    [
        ("/panic", "panicked: no luck", 'panic!("no {}"'),
        ("/fail", "Error: no number", "context("),
        ("/question", "Error: invalid digit found in string", "let number: u32"),
    ],
)
def test_failure_before_the_head_reports_its_line(ask: Ask, target: str, failure: str, place: str) -> None:
    answer = ask(target)
    assert (answer.status, answer.report.outcome, answer.report.detail) == (None, "guest-failed", failure)
    lines = [text for _, text in answer.lines]
    assert lines[0] == failure
    assert lines[1].startswith(f"    at src/lib.rs:{line(place)}:")


def test_error_with_a_cause_reports_the_cause(ask: Ask) -> None:
    assert ask("/fail").lines[-1] == ("stderr", "  caused by invalid digit found in string")


def test_any_error_reports_its_line_and_each_cause(ask: Ask) -> None:
    answer = ask("/any-error")
    assert answer.report.detail == "Error: the settings cannot be loaded"
    assert [text for _, text in answer.lines] == [
        "Error: the settings cannot be loaded",
        "    from two lines",
        f"    at src/lib.rs:{line('/any-error')}:32",
        "  caused by invalid digit found in string",
    ]


@pytest.mark.parametrize(
    ("target", "failure"), [("/late-fail", "Error: too late"), ("/late-panic", "panicked: much too late")]
)
def test_failure_after_the_head_truncates_the_response(ask: Ask, target: str, failure: str) -> None:
    answer = ask(target)
    assert (answer.status, answer.body, answer.ended) == (200, b"begun", False)
    assert (answer.report.outcome, answer.report.detail) == ("guest-failed", failure)


@pytest.mark.parametrize(("target", "failure"), [("/status", "99"), ("/header", '"x-bad"')])
def test_invalid_response_reports_the_invalid_value(ask: Ask, target: str, failure: str) -> None:
    answer = ask(target)
    assert answer.report.outcome == "guest-failed" and failure in answer.report.detail


def test_exceeded_memory_has_its_own_outcome(ask: Ask) -> None:
    assert ask("/memory", memory_limit_mb=32).report.outcome == "memory-limit"


def test_handler_failure_leaves_other_requests_running(crate: Crate, artifact: ComponentArtifact) -> None:
    outcomes = [answer.report.outcome for answer in crate.ask(artifact, "/panic", "/env", "/fail", "/env")]
    assert outcomes == ["guest-failed", "ok", "guest-failed", "ok"]


def test_log_writes_one_json_line_for_each_record(ask: Ask) -> None:
    answer = ask("/log")
    (stream, record), *rest = answer.lines
    assert stream == "stderr" and json.loads(record) == {
        "level": "warn",
        "msg": "/log was asked",
        "n": 7,
        "name": 'Jürgen "J"',
        "none": None,
    }
    assert ("stderr", "plain") in rest and ("stdout", "printed") in rest


class Peer:
    """A server that guests may call; it responds when `together` requests have arrived."""

    def __init__(self, together: int = 1) -> None:
        self.bodies: list[bytes] = []
        self._together = together
        self._all = asyncio.Event()
        self._calls: list[asyncio.Task[None]] = []

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._calls.append(asyncio.create_task(self._answer(reader, writer)))

    async def finish(self) -> None:
        """Release the waiting requests."""
        self._all.set()
        await asyncio.gather(*self._calls)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # The guest does not wait for as long as the head takes.
            writer.close()
            return
        body = b""
        if b"chunked" in head:
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
        elif b"content-length: " in head.lower():
            body = await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        self.bodies.append(head + body)
        if len(self.bodies) >= self._together:
            self._all.set()
        await self._all.wait()
        name = head.split()[1] + b" " + body
        writer.write(b"HTTP/1.1 200 OK\r\nx-kind: peer\r\ncontent-length: %d\r\n\r\n%s" % (len(name), name))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def calling(
    crate: Crate,
    artifact: ComponentArtifact,
    peer: Peer,
    target: str,
    *,
    allowed: bool = True,
    **fields: object,
) -> Answer:
    async def main() -> Answer:
        server = await asyncio.start_server(peer.take, "127.0.0.1", 0)
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        resource = Resource("api", "rust", crate.workdir, egress=(origin,) if allowed else ())
        runner = Runner(crate.cache)
        try:
            guest = await runner.guest(resource, artifact, {}, fast=True, report=lambda line: None)
            url = quote(origin, safe="")
            return await Client(**fields).call(guest, target.replace("URL", url), "POST")  # type: ignore[arg-type]
        finally:
            await runner.aclose()
            server.close()
            await peer.finish()

    return asyncio.run(main())


def test_fetch_sends_method_headers_and_body(crate: Crate, artifact: ComponentArtifact) -> None:
    peer = Peer()
    answer = calling(crate, artifact, peer, "/fetch?url=URL/a%20%C3%BC%3Fq%23f")
    assert answer.body == b'200 peer /a%20%C3%BC?q {"n":1}'
    assert b"x-a: b" in peer.bodies[0] and b"content-type: application/json" in peer.bodies[0]


def test_upload_is_streamed_to_another_server(crate: Crate, artifact: ComponentArtifact) -> None:
    pieces = [b"x" * 50_000, b"y" * 50_000]
    answer = calling(crate, artifact, Peer(), "/upload?url=URL/up", body=pieces)
    assert answer.body == b"/up " + b"".join(pieces)


def test_fetches_run_concurrently(crate: Crate, artifact: ComponentArtifact) -> None:
    answer = calling(crate, artifact, Peer(together=5), "/several?url=URL")
    assert answer.body == b"/1 ,/2 ,/3 ,/4 ,/5 "


def test_fetch_without_a_response_times_out(crate: Crate, artifact: ComponentArtifact) -> None:
    assert calling(crate, artifact, Peer(together=2), "/impatient?url=URL").body == b"TimedOut"


def test_denied_fetch_reports_egress(crate: Crate, artifact: ComponentArtifact) -> None:
    answer = calling(crate, artifact, Peer(), "/fetch?url=URL", allowed=False)
    assert answer.report.outcome == "guest-failed"
    assert "denied" in answer.report.detail and "egress" in answer.report.detail
    assert answer.report.detail.startswith("Error: POST http://127.0.0.1:")


@pytest.mark.parametrize("url", ["nonsense", "ftp://a/", "http://user@a/"])
def test_fetch_of_an_invalid_url_reports_the_url(ask: Ask, url: str) -> None:
    answer = ask(f"/fetch?url={url}")
    assert "not valid" in answer.report.detail and url in answer.report.detail


def test_world_binary_equals_the_assembled_world() -> None:
    assert BINARY.read_bytes() == assemble(), "run `python -m tests.lanes.rust.world`"
    assert BINARY.is_relative_to(GUEST)
