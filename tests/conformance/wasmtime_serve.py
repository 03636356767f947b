"""Runs the guests of this folder with `wasmtime serve`, for a comparison of the behaviors of wasi:http.

`WasmtimeHost` stands in for `Host`. Texts of errors are equal to any other.
"""

import asyncio
import re
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import h11

from engine.http.exchange import BodyInterrupted
from engine.wasm.execution.buffers import BUFFER_BYTES
from tests.conformance.guest import Guest
from tests.conformance.host import Answer, Client

PROGRAM = "SVC_TEST_WASMTIME"
"""Variable with the path of wasmtime, where the tests are to use it."""
_T = TypeVar("_T")
_ADDRESS = re.compile(rb"Serving HTTP on http://127\.0\.0\.1:(\d+)/")
_LINE_BYTES = 1 << 20
_SECONDS = 5.0
_REST_SECONDS = 1.0
"""Longest time between the end of the response and the guest's last step."""


class _AnyText(str):
    """The text of an error."""

    def __contains__(self, key: object) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return True

    def endswith(self, *args: object) -> bool:
        return True

    __hash__ = str.__hash__


class WasmtimeHost:
    """Starts a `wasmtime serve` for each guest."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.shim = False
        self.called: set[str] = set()
        self.loop = asyncio.new_event_loop()

    def close(self) -> None:
        self.loop.close()

    def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the loop of the client."""
        return self.loop.run_until_complete(work)

    def run(self, guest: Guest, client: Client | None = None, **fields: Any) -> Answer:
        """Run a guest to its end."""
        return self.wait(self.ask(guest, client, **fields))

    async def ask(self, guest: Guest, client: Client | None = None, **fields: Any) -> Answer:
        """Run a guest; `fields` are settings of svc and ignored."""
        client, answer = client or Client(), Answer(guest)
        component = self.folder / "guest.wat"
        component.write_text(guest.text(shim=self.shim), encoding="utf-8")
        command = [self.program, "serve", "--addr", "127.0.0.1:0", "--no-logging-prefix", "-S", "cli"]
        command += ["-S", "network-error-code", "-S", "http-outgoing-body-chunk-size=65536"]
        command += ["-S", f"http-outgoing-body-buffer-chunks={BUFFER_BYTES // 4096}"]
        command += ["--env", "SVC_PROJECT=test", str(component)]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=_LINE_BYTES
        )
        assert process.stdout is not None and process.stderr is not None
        errors: list[bytes] = []
        done = asyncio.Event()
        last = max((step.number for step in guest.steps.values() if step.reported), default=None)

        async def results(stream: asyncio.StreamReader) -> None:
            while line := await stream.readline():
                number = answer.take("stdout", line.decode().removesuffix("\n"))
                if number in client.then:
                    client.then.pop(number)(client)
                if number == last:
                    done.set()

        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def log(stream: asyncio.StreamReader) -> None:
            while line := await stream.readline():
                if served := _ADDRESS.search(line):
                    port.set_result(int(served[1]))
                else:
                    errors.append(line)
                    done.set()
            if not port.done():
                port.set_exception(RuntimeError(b"".join(errors).decode()))

        readers = [asyncio.create_task(results(process.stdout)), asyncio.create_task(log(process.stderr))]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS):
                    await _exchange(await port, client, answer)
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), _REST_SECONDS if last is not None else 0.1)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.gather(process.wait(), *readers, return_exceptions=True)
        failed = bool(errors) or b"<html>" in answer.body
        if failed and answer.status == 500:
            answer.status, answer.ended = None, False
            answer.chunks.clear()
        detail = _AnyText(b"".join(errors).decode(errors="replace"))
        answer.report = SimpleNamespace(  # type: ignore[assignment]
            outcome="guest-failed" if failed else "ok",
            detail=detail,
            complete=answer.ended,
            bytes_in=sum(map(len, client.pieces)),
        )
        return answer


async def _exchange(port: int, client: Client, answer: Answer) -> None:
    """Send the request of a client, and put the response into the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client.disconnected.add_callback(writer.transport.abort)
    client.start()
    await asyncio.sleep(0)
    headers = list(client.headers)
    names = {name.lower() for name, _ in headers}
    if b"host" not in names:
        headers.append((b"host", b"api.localhost"))
    if not names & {b"content-length", b"transfer-encoding"} and not client.body.exhausted:
        headers.append((b"transfer-encoding", b"chunked"))
    wire = h11.Connection(h11.CLIENT)
    sending = asyncio.create_task(_send(wire, writer, client, headers))
    try:
        while True:
            event = wire.next_event()
            if event is h11.NEED_DATA:
                wire.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Response):
                answer.status, answer.headers = (
                    event.status_code,
                    [field for field in event.headers if field[0] != b"date"],
                )
            elif isinstance(event, h11.Data):
                answer.chunks.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                answer.ended = True
                break
            elif not isinstance(event, h11.InformationalResponse):
                break
    except (OSError, h11.RemoteProtocolError):
        pass
    finally:
        sending.cancel()
        writer.close()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(
    wire: h11.Connection, writer: asyncio.StreamWriter, client: Client, headers: list[tuple[bytes, bytes]]
) -> None:
    request = h11.Request(method=client.method, target=client.target, headers=headers)
    writer.write(wire.send(request) or b"")
    try:
        while part := await client.body.read():
            writer.write(wire.send(h11.Data(data=part)) or b"")
            await writer.drain()
    except BodyInterrupted:
        writer.transport.abort()
        return
    writer.write(wire.send(h11.EndOfMessage()) or b"")
