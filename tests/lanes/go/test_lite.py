"""The lite library, hosted and natively."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes.go.module import HELLO, Module, Reply
from tests.lanes.go.native import natively
from tests.lanes.go.program import artifact, module, native, other
from tests.support.peer import Peer

__all__ = ["artifact", "module", "native", "other"]
pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("lite.go").read_text(encoding="utf-8")
Ask = Callable[..., Reply]


@pytest.fixture
def hosted(module: Module, artifact: ComponentArtifact) -> Ask:
    return lambda target, **given: module.ask(artifact, target, **given)[0]


@pytest.fixture(params=["hosted", "native"])
def ask(request: pytest.FixtureRequest, hosted: Ask, other: Peer) -> Ask:
    if request.param == "native":
        port = request.getfixturevalue("native")
        return lambda target, **given: natively(port, target.replace("URL", other.origin), **given)

    def answered(target: str, **given: object) -> Reply:
        target = target.replace("URL", other.origin)
        reply = hosted(target, environment={"GREETING": "hello"}, egress=(other.origin,), **given)
        assert (reply.report.outcome, reply.ended) == ("ok", True), (reply.report.detail, reply.lines)
        if given.get("method") == "HEAD":
            reply.chunks.clear()  # as the server does
        return reply

    return answered


def test_component_is_smaller_than_net_http_by_the_same_go(
    artifact: ComponentArtifact, tmp_path: Path, cache: Path
) -> None:
    hello = Module(tmp_path / "hello", cache)
    hello.program(HELLO)
    assert artifact.component.stat().st_size < 0.5 * hello.build("deploy").component.stat().st_size


def test_request_has_method_target_fields_and_environment(ask: Ask) -> None:
    reply = ask("/seen/%C3%BC?a=%20&b", method="PURGE", fields=[("x-many", "1"), ("X-Many", "2")])
    assert reply.status == 404
    reply = ask("/seen?a=%20&b", method="PURGE", fields=[("x-many", "1"), ("X-Many", "2")])
    assert reply.text == 'PURGE /seen a=%20&b api.localhost ["1" "2"]'
    assert ask("/env").text == "hello"


def test_context_ends_when_the_client_leaves(hosted: Ask) -> None:
    reply = hosted("/until-left", leave_after=1)
    assert (reply.report.outcome, reply.lines) == ("client-gone", [("stdout", "left: context canceled")])


def test_response_has_status_fields_and_body(ask: Ask) -> None:
    reply = ask("/made")
    assert (reply.status, reply.text) == (201, "made")
    assert reply.values("x-many") == ["1", "2"]
    assert reply.values("content-type") == ["text/plain"]
    assert (ask("/nothing").status, ask("/nothing").body) == (200, b"")


def test_response_without_a_body_has_no_content(ask: Ask) -> None:
    empty = ask("/empty")
    assert (empty.status, empty.body, empty.values("content-length")) == (204, b"", [])
    head = ask("/made", method="HEAD")
    assert (head.status, head.body, head.values("content-length")) == (201, b"", ["4"])


PIECES = [os.urandom(size) for size in (1, 65_535, 65_537, 4096) * 24]


@pytest.mark.parametrize("size", [7, 4096, 70_001])
def test_body_round_trips_in_reads_of_any_size(ask: Ask, size: int) -> None:
    pieces = PIECES[:4] if size == 7 else PIECES
    assert ask(f"/echo?{size}", method="POST", body=pieces).body == b"".join(pieces)


def test_request_without_a_body_has_an_empty_one(ask: Ask) -> None:
    assert ask("/echo?10", method="POST").body == b""


def test_flushed_data_is_sent_at_once(ask: Ask) -> None:
    reply = ask("/flush")
    assert reply.chunks == [b"piece 0", b"piece 1", b"piece 2", b"piece 3"]
    assert reply.times[-1] - reply.times[0] > 0.15


def test_events_are_sent_one_at_a_time(ask: Ask) -> None:
    reply = ask("/events")
    assert reply.values("content-type") == ["text/event-stream"]
    assert reply.values("cache-control") == ["no-cache"]
    ticks = [f"id: {n}\nevent: tick\ndata: a\ndata: b\n\n".encode() for n in range(4)]
    assert reply.body == b": hello\n\n" + b"".join(ticks)
    assert reply.times[-1] - reply.times[-4] > 0.15


def test_fetch_returns_the_response_of_another_server(ask: Ask, other: Peer) -> None:
    assert ask("/fetch/to/URL/a%20b").text == "200 peer GET /a%20b  <nil>"
    assert ask("/fetch/to/URL").text == "200 peer GET /  <nil>"
    assert ask("/fetch/to/URL/x", fields=[("x-method", "DELETE")]).text == "200 peer DELETE /x  <nil>"
    assert ask("/fetch/to/URL/elsewhere").text.startswith("302 ")


def test_fetch_sends_body_and_fields(ask: Ask, other: Peer) -> None:
    other.requests.clear()
    assert ask("/post/to/URL/x", method="POST", body=[b"a ", b"body"]).text == "200 peer POST /x a body <nil>"
    ((_, _, fields, _),) = other.requests
    assert [value for name, value in fields if name.lower() == "x-many"] == ["a", "b"]


def test_fetches_run_concurrently(ask: Ask) -> None:
    lines = ask("/several/to/URL/together").text.splitlines()
    assert [line.split()[3] for line in lines] == [f"/together?{n}" for n in range(5)]


def test_fetch_ends_at_its_deadline_and_invalid_urls_fail(ask: Ask) -> None:
    assert ask("/deadline/to/URL/never").text == "true"
    assert ask("/bad-url").text == "true\n" * 4


def test_failure_reports_its_cause(hosted: Ask) -> None:
    assert "panic: no luck (" in hosted("/panic").report.detail
    late = hosted("/late-panic")
    assert (late.status, late.body, late.ended) == (200, b"begun", False)
    assert "X Bad" in hosted("/bad-field").report.detail
    assert "12345" in hosted("/bad-status").report.detail
    assert "HTTP-request-denied" in hosted("/fetch/to/http://127.0.0.1:1").text


def test_failed_write_cancels_the_context_of_the_request(hosted: Ask) -> None:
    answer = hosted("/too-much")
    assert answer.lines == [("stdout", "told: true context canceled")]
