"""Replay of recorded requests: the request sent, the response, and the outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.replay import MAX_REMEMBERED, MAX_REMEMBERED_BYTES, NotReplayable, Replayer
from engine.gateway.routes import RouteTable
from engine.manifest.model import Project, Resource
from engine.timeline.bus import TimelineBus
from engine.timeline.record import LineRecord, PlatformRecord, Record, RequestRecord
from engine.timeline.recording import (
    MAX_BODY_BYTES,
    BodyCapture,
    RecordedExchange,
    Recording,
    original,
    to_exchange,
)
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.gateway.serving import Scripted, reply, report

NONE: frozenset[str] = frozenset()


class Site:
    """A gateway for one resource, and the requests that reached it."""

    def __init__(self, body: Callable[[GuestRequest], Awaitable[RunReport]], seconds: float = 60.0) -> None:
        project = Project("shop", Path("/"), {"web": Resource("web", "js", Path("/"), public=True)})
        table = RouteTable.build(project, {"web": Scripted(body)}, domain="localhost")
        self.timeline = TimelineBus()
        self.records: list[Record] = []
        self.timeline.subscribe(self.records.append)
        self.recordings: list[Recording] = []
        self.timeline.recordings.subscribe(self.recordings.append)
        gateway = Gateway(lambda: table, lambda _: self.timeline, GatewaySettings(record=True))
        self.replayer = Replayer(gateway, self.timeline, seconds)


def stored(body: bytes = b"question", *headers: tuple[bytes, bytes]) -> RecordedExchange:
    """Return a request as it was recorded."""
    length = (b"content-length", str(len(body)).encode())
    recording = Recording(
        project="shop",
        request_id="01old",
        time_ns=1,
        method="POST",
        scheme="http",
        authority="localhost:3000",
        target="/a%20b?c=d",
        headers=[(b"host", b"localhost:3000"), length, *headers],
    )
    recording.body.add(body, ended=True)
    return to_exchange(recording)


async def read_body(run: GuestRequest) -> bytes:
    """Return the body of a request."""
    read = b""
    while part := await run.exchange.body.read():
        read += part
    return read


def test_replay_sends_recorded_request_with_new_trace() -> None:
    async def answer(run: GuestRequest) -> RunReport:
        run.on_line("stdout", "hello")
        headers = b" ".join(name for name, _ in run.headers if name != b"traceparent")
        text = f"{run.method} {run.target} {run.authority}|".encode() + headers + b"|" + await read_body(run)
        return await reply(run, text, 201)

    async def main() -> None:
        site = Site(answer)
        hidden = [(b"authorization", b"secret"), (b"cookie", b"secret"), (b"x-kind", b"plain")]
        result = await site.replayer.replay(
            stored(b"question", *hidden, (b"traceparent", b"00-1-2-01")), NONE
        )
        added = b"x-forwarded-for x-forwarded-proto forwarded x-svc-client"
        sent = b"POST /a%20b?c=d localhost:3000|host content-length x-kind " + added + b"|question"
        assert (result.exchange.status, result.exchange.response.body) == (201, sent)
        assert result.exchange.response.complete and result.omitted_headers == ("authorization", "cookie")
        mark, line, span = result.records
        assert isinstance(mark, PlatformRecord) and mark.text == "replay of 01old"
        assert isinstance(line, LineRecord) and isinstance(span, RequestRecord)
        assert {record.request_id for record in result.records} == {result.exchange.request_id}
        (recorded,) = site.recordings
        assert to_exchange(recorded).request.body == b"question"
        assert recorded.request_id == result.exchange.request_id != "01old"

    asyncio.run(main())


@pytest.mark.parametrize(("host", "passed"), [("web--shop.svc.internal", True), ("localhost", False)])
def test_replay_of_a_schedules_run_reaches_its_resource_with_its_fields(host: str, passed: bool) -> None:
    async def answer(run: GuestRequest) -> RunReport:
        return await reply(run, dict(run.headers).get(b"x-svc-schedule", b""))

    async def main() -> None:
        recorded = replace(stored(b"", (b"x-svc-schedule", b"/nightly")), authority=host)
        result = await Site(answer).replayer.replay(recorded, NONE)
        assert result.exchange.status == 200
        assert result.exchange.response.body == (b"/nightly" if passed else b"")

    asyncio.run(main())


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 5 * MAX_BODY_BYTES])
def test_replay_of_truncated_body_raises_not_replayable(size: int) -> None:
    async def answer(run: GuestRequest) -> RunReport:
        raise AssertionError("sent")

    with pytest.raises(NotReplayable, match="only the first 65536 bytes"):
        asyncio.run(Site(answer).replayer.replay(stored(b"x" * size), NONE))


def test_replay_of_truncated_response_is_not_ended() -> None:
    async def answer(run: GuestRequest) -> RunReport:
        await run.exchange.send_head(200, [])
        await run.exchange.send_body(b"half", end=False)
        return report("guest-failed", complete=False)

    result = asyncio.run(Site(answer).replayer.replay(stored(), NONE))
    assert (result.exchange.response.body, result.exchange.response.ended) == (b"half", False)


async def endless(run: GuestRequest) -> RunReport:
    """Respond until the client has disconnected."""
    await run.exchange.send_head(200, [])
    await run.exchange.send_body(b"first", end=False)
    await run.exchange.disconnected.wait()
    return report("client-gone", complete=False)


def test_replay_of_endless_response_times_out() -> None:
    result = asyncio.run(Site(endless, seconds=0.02).replayer.replay(stored(), NONE))
    assert (result.exchange.response.body, result.exchange.response.ended) == (b"first", False)
    assert isinstance(span := result.records[-1], RequestRecord) and span.code == "client-gone"


def test_canceled_replay_ends_run() -> None:
    async def main() -> None:
        site = Site(endless)
        replaying = asyncio.create_task(site.replayer.replay(stored(), NONE))
        started = asyncio.Event()
        site.timeline.subscribe(lambda record: started.set())
        await started.wait()
        replaying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await replaying
        assert isinstance(span := site.records[-1], RequestRecord) and span.code == "client-gone"

    asyncio.run(main())


def test_replay_returns_500_of_internal_error() -> None:
    async def answer(run: GuestRequest) -> RunReport:
        raise KeyError("internal")

    result = asyncio.run(Site(answer).replayer.replay(stored(), NONE))
    assert result.exchange.status == 500 and b"internal" in result.exchange.response.body


def test_disabled_recording_records_nothing() -> None:
    async def answer(run: GuestRequest) -> RunReport:
        return await reply(run, b"")

    async def main(settings: GatewaySettings, recorded: frozenset[str] | None) -> int:
        timeline, found = TimelineBus(), list[Any]()
        timeline.recordings.subscribe(found.append)
        project = Project(
            "shop", Path("/"), {"web": Resource("web", "js", Path("/"), public=True)}, recorded=recorded
        )
        table = RouteTable.build(project, {"web": Scripted(answer)}, domain="localhost")
        await Replayer(Gateway(lambda: table, lambda _: timeline, settings), timeline).replay(stored(), NONE)
        return len(found)

    assert asyncio.run(main(GatewaySettings(record=True), NONE)) == 1
    assert asyncio.run(main(GatewaySettings(record=True), None)) == 0
    assert asyncio.run(main(GatewaySettings(), NONE)) == 0


def test_replay_sends_the_credentials_of_recent_requests_again() -> None:
    async def answer(run: GuestRequest) -> RunReport:
        cookies = b" ".join(value for name, value in run.headers if name == b"cookie")
        return await reply(run, cookies + run.target.encode() + await read_body(run))

    async def main() -> None:
        site = Site(answer)
        recording = Recording(
            project="shop",
            request_id="01old",
            time_ns=1,
            method="GET",
            scheme="http",
            authority="localhost:3000",
            target="/?code=a+b&token=a%20b",
            headers=[
                (b"host", b"localhost:3000"),
                (b"Cookie", b"a=1"),
                (b"cookie", b"b=2"),
                (b"x-pin", b"7"),
            ],
            redact=frozenset({"x-pin"}),
        )
        body = b'{ "password" : "x", "x-pin": 7 }'
        recording.body.add(body, ended=True)
        site.timeline.recordings.append(recording)
        assert site.replayer.original("01old") == original(recording)
        restored = site.replayer.restored(to_exchange(recording), recording.redact)
        result = await site.replayer.replay(restored, recording.redact)
        sent = b"a=1 b=2/?code=a+b&token=a%20b" + body
        assert (result.exchange.response.body, result.omitted_headers) == (sent, ())
        for number in range(MAX_REMEMBERED):
            site.timeline.recordings.append(replace(recording, request_id=str(number)))
        with pytest.raises(
            NotReplayable, match="the value of password, token, x-pin is no longer in the memory"
        ):
            site.replayer.restored(to_exchange(recording), recording.redact)
        plain = replace(recording, target="/", body=BodyCapture())
        plain.body.add(b"", ended=True)
        again = site.replayer.restored(to_exchange(plain), NONE)
        assert (await site.replayer.replay(again, NONE)).omitted_headers == ("cookie", "x-pin")

    asyncio.run(main())


def test_requests_in_memory_have_a_maximum_size() -> None:
    site = Site(endless)
    recording = Recording(
        project="shop",
        request_id="0",
        time_ns=1,
        method="GET",
        scheme="http",
        authority="localhost:3000",
        target="/",
        headers=[],
    )
    recording.body.add(b"x" * MAX_BODY_BYTES, ended=True)
    most = MAX_REMEMBERED_BYTES // recording.weight
    assert most < MAX_REMEMBERED
    for number in range(most + 1):
        site.timeline.recordings.append(replace(recording, request_id=str(number)))
    remembered = [number for number in range(most + 1) if site.replayer.original(str(number)) is not None]
    assert remembered == list(range(1, most + 1))
