"""net/http behaves equally hosted and natively."""

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from engine.artifact import ComponentArtifact
from tests.lanes.go.module import Module, Reply
from tests.lanes.go.native import natively
from tests.lanes.go.program import artifact, module, native, other
from tests.support.forms import multipart
from tests.support.peer import COMPRESSED, Peer

__all__ = ["artifact", "module", "native", "other"]
pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("program.go").read_text(encoding="utf-8")
Ask = Callable[..., Reply]


@pytest.fixture(params=["hosted", "native"])
def ask(request: pytest.FixtureRequest, module: Module, artifact: ComponentArtifact, other: Peer) -> Ask:
    if request.param == "native":
        port = request.getfixturevalue("native")
        return lambda target, **given: natively(port, target.replace("URL", at(other)), **given)

    def hosted(target: str, **given: object) -> Reply:
        reply = module.ask(
            artifact,
            target.replace("URL", at(other)),
            environment={"GREETING": "hello"},
            egress=(other.origin,),
            **given,  # type: ignore[arg-type]
        )[0]
        assert (reply.report.outcome, reply.ended) == ("ok", True), (reply.report.detail, reply.lines)
        if given.get("method") == "HEAD":
            reply.chunks.clear()  # as the server does
        return reply

    return hosted


def at(other: Peer) -> str:
    return quote(other.origin, safe="")


def test_mux_matches_patterns(ask: Ask) -> None:
    assert ask("/items/7").text == "item 7"
    assert ask("/items/7", method="POST").status == 405
    assert ask("/missing").status == 404
    assert ask("/items/a%2Fb").text == "item a/b"


def test_request_has_method_target_and_fields(ask: Ask) -> None:
    target = "/seen/%C3%BC?name=J%C3%BCrgen+M&x"
    reply = ask(target, method="PURGE", fields=[("x-many", "1"), ("X-Many", "2"), ("x-many", "3, 4")])
    assert json.loads(reply.body) == {
        "method": "PURGE",
        "target": target,
        "path": "/seen/ü",
        "name": "Jürgen M",
        "host": "api.localhost",
        "hostField": "",
        "length": 0,
        "many": ["1", "2", "3, 4"],
        "proto": "HTTP/1.1",
    }
    assert reply.values("content-type") == ["application/json"]


def test_request_has_its_length_if_known(ask: Ask) -> None:
    sized = ask("/seen/", method="POST", body=[b"12345"], fields=[("content-length", "5")])
    assert json.loads(sized.body)["length"] == 5
    assert json.loads(ask("/seen/", method="POST", body=[b"12", b"345"]).body)["length"] == -1


def test_environment_is_available(ask: Ask) -> None:
    assert ask("/env").text == "hello1"


def test_forms_and_json_are_parsed(ask: Ask) -> None:
    form = [("content-type", "application/x-www-form-urlencoded")]
    assert ask("/form?a=1", method="POST", body=[b"b=%C3%BC"], fields=form).text == "1ü"
    assert ask("/json", method="POST", body=[b'{"numbers": [1, 2]}']).text == "[1 2]"
    assert ask("/json", method="POST", body=[b"{"]).status == 400


def test_multipart_files_larger_than_the_memory_argument_are_read(ask: Ask) -> None:
    files = [("a.txt", b"tiny"), ("b c.bin", os.urandom(15 << 20)), ("empty", b"")]
    reply = ask(
        "/upload", method="POST", **multipart(("file", *files[0]), ("file", *files[1]), name="Jürgen")
    )
    lines = []
    for filename, content in files[:2]:
        middle = content[len(content) // 2 :][:10]
        late = "EOF" if len(middle) < 10 else "<nil>"
        lines.append(f"{filename} true <nil> {late} <nil> 3")
        lines.append(f"{hashlib.sha256(content).hexdigest()} {middle.ljust(10, bytes(1)).hex()}")
    assert reply.text.splitlines() == [*lines, "Jürgen"]


def test_body_above_the_limit_of_a_handler_is_an_error(ask: Ask) -> None:
    assert ask("/limited", method="POST", body=[b"x" * 10]).text == "false"
    assert ask("/limited", method="POST", body=[b"x" * 11]).text == "true"


SIZES = [1, 65_535, 65_537, 4096] * 24
PIECES = [hashlib.shake_128(bytes([i])).digest(size) for i, size in enumerate(SIZES, 1)]


@pytest.mark.parametrize("size", [0, 7, 4095, 4096, 70_001])
def test_three_megabytes_round_trip(ask: Ask, size: int) -> None:
    assert ask(f"/echo?size={size}", method="POST", body=PIECES).body == b"".join(PIECES)


@pytest.mark.parametrize("size", [0, 1, 4096, 65_536, 1_000_003])
def test_body_of_any_size_is_read_whole(ask: Ask, size: int) -> None:
    sent = os.urandom(size)
    reply = ask("/digest", method="POST", body=[sent], fields=[("content-length", str(size))])
    assert reply.text == f"{size} {hashlib.sha256(sent).hexdigest()} <nil>"


def test_large_response_arrives_whole(ask: Ask) -> None:
    assert ask("/large").body == b"0123456789" * 100_001


@pytest.mark.parametrize("code", [201, 404, 599, 204, 304])
def test_status_is_sent_and_some_have_no_body(ask: Ask, code: int) -> None:
    reply = ask(f"/status/{code}")
    body = "" if code in (204, 304) else "body"
    assert (reply.status, reply.text) == (code, body)
    if not body:
        assert reply.values("content-length") == []


def test_head_response_has_fields_and_no_body(ask: Ask) -> None:
    reply = ask("/items/7", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert reply.values("content-length") == ["6"]
    assert reply.values("content-type") == ["text/plain; charset=utf-8"]


def test_head_response_has_no_length_if_nothing_was_written(ask: Ask) -> None:
    assert ask("/nothing", method="HEAD").values("content-length") == []
    assert ask("/nothing").values("content-length") == ["0"]


def test_head_response_has_the_length_of_the_omitted_body(ask: Ask) -> None:
    assert ask("/content", method="HEAD").values("content-length") == ["10"]


def test_response_fields_are_sent_in_order(ask: Ask) -> None:
    reply = ask("/fields")
    assert reply.values("set-cookie") == ["a=1", "b=2", "c=3"]
    assert reply.values("x-odd") == ['a, "b"']
    assert reply.values("content-type") == ["text/html; charset=utf-8"]
    assert reply.values("x-late") == []


def test_malformed_fields_are_repaired_or_omitted(ask: Ask) -> None:
    assert ask("/bad-field").values("x bad") == []
    assert ask("/bad-value").values("x-bad") == ["a  X-Forged: b"]


def test_handlers_of_the_standard_library_work(ask: Ask) -> None:
    ranged = ask("/content", fields=[("range", "bytes=2-4")])
    assert (ranged.status, ranged.body, ranged.values("content-range")) == (206, b"234", ["bytes 2-4/10"])
    date = ranged.values("last-modified")[0]
    assert ask("/content", fields=[("if-modified-since", date)]).status == 304
    slow = ask("/slow-handler")
    assert (slow.status, slow.text) == (503, "too slow")
    assert ask("/redirected").values("location") == ["/items/7"]
    assert (ask("/nothing").status, ask("/recovered").text) == (200, "recovered: no harm")


def one_at_a_time(times: Sequence[float]) -> bool:
    """Return whether four pieces arrived a tenth of a second apart, as sent."""
    return len(times) == 4 and times[-1] - times[0] > 0.15


def test_flushed_data_is_sent_at_once(ask: Ask) -> None:
    reply = ask("/flush")
    assert reply.chunks == [b"piece 0", b"piece 1", b"piece 2", b"piece 3"]
    assert one_at_a_time(reply.times)
    assert ask("/controller").text == "one<nil>"


def test_events_are_sent_one_at_a_time(ask: Ask) -> None:
    reply = ask("/events")
    assert reply.values("content-type") == ["text/event-stream"]
    assert reply.values("cache-control") == ["no-cache"]
    hello, *ticks, two, raw, none, error, end = reply.text.split("\n\n")
    assert hello == ": hello"
    assert ticks == [f'id: {n}\nevent: tick\ndata: {{"n":{n}}}' for n in range(4)]
    assert two == "retry: 1000\ndata: two\ndata: lines"
    assert (raw, none, end) == ("data: bytes", "event: none\ndata: ", "")
    assert "an event's data" in error
    assert one_at_a_time([t for t, chunk in zip(reply.times, reply.chunks, strict=True) if b"tick" in chunk])


def test_goroutines_timers_and_locks_work(ask: Ask) -> None:
    assert ask("/workers").text == "124750 1500"
    assert ask("/timers").text == "firedtrue"
    assert ask("/busy").text == "13917298230507451072"
    assert ask("/garbage").text == "50"


def test_fetch_returns_the_response_of_another_server(ask: Ask, other: Peer) -> None:
    other.requests.clear()
    assert ask("/fetch?url=URL/a%20%C3%BC%3Fq%23f").text == "200 peer 18 GET /a%20%C3%BC?q  <nil>"
    ((_, _, fields, _),) = other.requests
    assert [value for name, value in fields if name.lower() == "x-many"] == ["a", "b"]
    assert [value for name, value in fields if name.lower() == "host"] == [other.origin[7:]]
    assert [value for name, value in fields if name.lower() == "user-agent"] == ["Go-http-client/1.1"]


@pytest.mark.parametrize("method", ["DELETE", "PURGE", "PATCH"])
def test_fetch_sends_any_method(ask: Ask, method: str) -> None:
    assert f"{method} /x" in ask(f"/fetch?method={method}&url=URL/x").text


def test_fetch_of_head_has_no_body(ask: Ask) -> None:
    assert ask("/fetch?method=HEAD&url=URL/x").text == "200 peer 8  <nil>"


def test_fetch_sends_bodies(ask: Ask, other: Peer) -> None:
    other.requests.clear()
    assert ask("/sized?url=URL/x").text == "200 peer 14 POST /x a body <nil>"
    assert ask("/empty?url=URL/x").text == "200 peer 8 POST /x  <nil>"
    pieces = [b"x" * 70_000, b"y" * 70_001]
    assert "POST /x " + "x" * 70_000 + "y" in ask("/chunked?url=URL/x", method="POST", body=pieces).text
    assert other.requests[2][3] == b"".join(pieces)
    lengths = [[v for k, v in fields if k.lower() == "content-length"] for _, _, fields, _ in other.requests]
    assert lengths == [["6"], ["0"], []]


def test_fetches_run_concurrently(ask: Ask, other: Peer) -> None:
    lines = ask("/several?url=URL/together").text.splitlines()
    assert [line.split()[4] for line in lines] == [f"/together?{n}" for n in range(5)]


def test_other_goroutines_run_while_one_waits(ask: Ask) -> None:
    assert ask("/meanwhile?url=URL/late").text == "done meanwhile <nil>"


def test_fetch_ends_at_its_deadline(ask: Ask) -> None:
    assert ask("/deadline?url=URL/never").text == "true context deadline exceeded"
    assert ask("/client-timeout?url=URL/never").text == "true true"
    assert ask("/body-timeout?url=URL/half").text == "halftrue"
    assert ask("/canceled?url=URL/never").text == "true"


def test_gzip_response_is_unpacked_as_in_net_http(ask: Ask, other: Peer) -> None:
    other.requests.clear()
    packed = len(gzip.compress(COMPRESSED.encode()))
    assert ask("/gzip?url=URL/gzip").text.splitlines() == [
        '"" true -1 <nil>',
        f"{len(COMPRESSED)} compr",
        *[f'"gzip" false {packed} <nil>'] * 3,
    ]
    encodings = [
        [value for name, value in fields if name.lower() == "accept-encoding"]
        for *_, fields, _ in other.requests
    ]
    assert encodings == [["gzip"], [], ["gzip"], ["gzip"]]


def test_redirects_are_followed_unless_disabled(ask: Ask) -> None:
    assert "GET /landed" in ask("/fetch?url=URL/elsewhere").text
    assert ask("/not-followed?url=URL/elsewhere").text == "302/landed"


def test_response_bodies_may_be_read_late_closed_early_or_truncated(ask: Ask) -> None:
    assert ask("/late-read?url=URL/x").text == "200 peer 7 GET /x  <nil>"
    assert ask("/closed-early?url=URL/large").text == "largetrue " * 3
    assert ask("/fetch?url=URL/cut").text.startswith("200  100 cut off")
    assert not ask("/fetch?url=URL/cut").text.endswith("<nil>")


def test_failing_upload_does_not_arrive_as_complete(ask: Ask, other: Peer) -> None:
    other.requests.clear()
    assert "error: " in ask("/broken-upload?url=URL/x").text
    assert other.requests == []


def test_response_is_read_while_its_request_is_written(ask: Ask) -> None:
    assert ask("/answered-upload?url=URL/echo").text == "200 one,two <nil>"


def test_unsendable_upload_is_closed(ask: Ask) -> None:
    closed = quote("http://127.0.0.1:1", safe="")
    assert ask(f"/closed-upload?url={closed}").text == "true io: read/write on closed pipe"


@pytest.mark.parametrize("route", ["own-transport", "cloned-transport"])
def test_transports_of_the_program_use_the_host(ask: Ask, route: str) -> None:
    assert ask(f"/{route}?url=URL/x").text == "200 peer 7 GET /x  <nil>"


def test_reverse_proxy_forwards_requests(ask: Ask) -> None:
    reply = ask("/proxied?url=URL/x", method="POST", body=[b"a body"])
    assert reply.text == "POST /x a body"
    assert reply.values("x-kind") == ["peer"]


def test_program_reaches_its_own_servers(ask: Ask) -> None:
    assert ask("/own-server?url=").text == (
        "200  20 POST /a 200000 false <nil>200  13 GET /b 0 true <nil>true"
    )
    assert ask("/own-socket?url=").text == "tea<nil>"
