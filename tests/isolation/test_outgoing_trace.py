"""Trace context that outgoing requests carry."""

from engine.trace import call_id
from engine.wasm.outbound.http import OutboundHttp
from tests.isolation.test_egress import Caller, check, peer

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_outgoing_request_has_the_trace_context_of_its_call() -> None:
    async def test(outgoing: OutboundHttp) -> None:
        async with peer() as server:
            host = f"127.0.0.1:{server.port}"
            caller = Caller(outgoing, f"http://{host}")
            caller.run.request.env["TRACEPARENT"] = f"00-{TRACE}-00f067aa0ba902b7-01"
            for number in range(2):
                await caller.call(host)
                assert (
                    f"traceparent: 00-{TRACE}-{call_id('00f067aa0ba902b7', number)}-01".encode()
                    in b"".join(server.received)
                )
            await caller.call(host, "/", None, (b"traceparent", b"own"))
            assert b"".join(server.received).count(TRACE.encode()) == 2

    check(test)
