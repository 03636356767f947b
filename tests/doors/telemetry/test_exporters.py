"""The OpenTelemetry exporter of Python against the telemetry Door over a socket."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from engine.door import DoorResponse
from tests.doors.telemetry.telemetry_door import CALLER, OpenTelemetry


class Server:
    """An HTTP server that passes requests to the Door on a separate event loop."""

    def __init__(self, telemetry: OpenTelemetry) -> None:
        loop = asyncio.new_event_loop()
        answers: list[DoorResponse] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                request = telemetry.send(
                    body,
                    self.headers["content-type"],
                    path=self.path,
                    packed=self.headers.get("content-encoding", ""),
                )
                result: Future[DoorResponse] = asyncio.run_coroutine_threadsafe(request, loop)
                answer = result.result()
                answers.append(answer)
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value.decode())
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.answers = answers
        self._loop = loop
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._threads = [
            threading.Thread(target=loop.run_forever),
            threading.Thread(target=self._http.serve_forever, args=(0.01,)),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._threads:
            thread.join()
        self._loop.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[OpenTelemetry, Server]]:
    telemetry = OpenTelemetry(tmp_path)
    server = Server(telemetry)
    yield telemetry, server
    server.close()


@pytest.mark.parametrize("compression", Compression)
def test_records_of_python_exporter_are_stored(
    server: tuple[OpenTelemetry, Server], compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry, http = server
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", http.url)
    provider = LoggerProvider(Resource.create({"deployment": "test"}))
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(compression=compression)))
    logger = provider.get_logger("shop.orders", "1.0", attributes={"tier": "back"})
    data = {"n": 5, "ok": True, "rate": 0.5, "ids": [1, 2], "who": {"name": "ü"}, "raw": b"\x00\xff"}
    logger.emit(
        severity_number=SeverityNumber.WARN2,
        severity_text="WARN",
        body="slow order",
        attributes=data,
        timestamp=1_799_999_999 * 10**9,
        event_name="order.slow",
    )
    for number in range(600):
        logger.emit(severity_number=SeverityNumber.DEBUG, body={"number": number})
    provider.shutdown()
    first, *others = telemetry.logged
    assert (first.severity, first.body, first.caller) == ("WARN", "slow order", CALLER)
    assert first.time_ns == 1_799_999_999 * 10**9
    assert first.attributes == {
        "n": "5",
        "ok": "true",
        "rate": "0.5",
        "ids": "[1,2]",
        "who": '{"name":"ü"}',
        "raw": "AP8=",
        "event.name": "order.slow",
        "otel.scope.name": "shop.orders",
        "otel.scope.version": "1.0",
        "tier": "back",
        "deployment": "test",
    }
    assert [entry.body for entry in others] == [f'{{"number":{number}}}' for number in range(600)]
    assert {answer.status for answer in http.answers} == {200}


def test_python_exporter_does_not_retry_refused_request(server: tuple[OpenTelemetry, Server]) -> None:
    telemetry, http = server
    exporter = OTLPLogExporter(f"{http.url}/v1/nothing")
    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    provider.get_logger("x").emit(body="lost")
    provider.shutdown()
    assert [answer.status for answer in http.answers] == [404]
    assert telemetry.logged == []


@pytest.mark.parametrize("base", [False, True])
def test_python_exporter_takes_the_endpoint_as_it_is_or_as_a_base(
    server: tuple[OpenTelemetry, Server], base: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry, http = server
    if base:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", http.url)
    provider = LoggerProvider()
    exporter = OTLPLogExporter() if base else OTLPLogExporter(http.url)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    provider.get_logger("x").emit(body="kept")
    provider.shutdown()
    assert [entry.body for entry in telemetry.logged] == ["kept"]
    assert [answer.status for answer in http.answers] == [200]
