import asyncio
import socket
import threading
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import httpcore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.manifest.egress import Egress
from engine.wasm.outbound.connections import (
    MAX_LOOKUPS_PER_RESOURCE,
    AddressDenied,
    Dialer,
    NameNotResolved,
    SystemResolver,
    is_public,
)
from tests.support.examples import examples

WRAPPED = """
::ffff:0:7f00:1 64:ff9b::e000:1 2002:a9fe:a9fe:: 2002:6440:1:: 2001:0:7f00:1:: 2001:20::1
::ffff:0:0 ::ffff:a83f:8110 fd00:ec2::254 fe80::5efe:7f00:1 192.0.0.170 0.0.0.1 5f00::1
"""
"""Private addresses within others, and rare kinds."""


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::1",
        "2002:a00:1::",
        "100::1",
        "4000::1",
        "2001::1",
        "3fff::1",
        "192.0.0.8",
        "168.63.129.16",
        *WRAPPED.split(),
    ],
)
def test_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
)
def test_global_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


WITHIN = {
    "mapped": (0xFFFF, 32, 0),
    "compatible": (0, 32, 0),
    "translated": (0xFFFF0000, 32, 0),
    "NAT64": (0x64FF9B << 64, 32, 0),
    "local NAT64": (0x64FF9B00010000 << 40, 32, 0),
    "6to4": (0x2002, 112, 80),
}
"""Bits before an IPv4 address within an IPv6 one, their distance from its end, and that of the address."""


@settings(max_examples=examples(300), deadline=None)
@given(address=st.ip_addresses(v=4), kind=st.sampled_from([*WITHIN]), rest=st.integers(0, (1 << 80) - 1))
def test_address_within_another_is_public_only_if_it_is(address: IPv4Address, kind: str, rest: int) -> None:
    prefix, distance, at = WITHIN[kind]
    outer = IPv6Address(prefix << distance | int(address) << at | rest % (1 << at))
    assert is_public(address) or not is_public(outer)


class Names:
    """A name server: each lookup returns the next answer, the last one forever."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str) -> list[str]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return answer


def dial(names: Any, host: str, *rules: str, listen: str = "127.0.0.1") -> Any:
    """Connect to a name; return the reached address. `PORT` in a rule is the listener's."""

    async def main() -> bytes:
        async def greet(_reader: Any, writer: asyncio.StreamWriter) -> None:
            writer.write(b"reached")
            writer.close()

        server = await asyncio.start_server(greet, listen, 0)
        port = server.sockets[0].getsockname()[1]
        egress = Egress.parse(tuple(rule.replace("PORT", str(port)) for rule in rules))
        try:
            stream = await Dialer(egress, names).connect_tcp(host, port)
            try:
                return await stream.read(100)
            finally:
                await stream.aclose()
        finally:
            server.close()
            await server.wait_closed()

    return asyncio.run(main())


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "10.0.0.1", "fe80::1%lo"],
)
def test_name_resolving_to_private_address_is_not_dialed(address: str) -> None:
    with pytest.raises(AddressDenied) as exc_info:
        dial(Names([address]), "inside.example", "http://inside.example:PORT")
    assert exc_info.value.address == ip_address(address)


def test_name_may_resolve_to_address_listed_in_egress() -> None:
    assert (
        dial(Names(["127.0.0.1"]), "a.example", "http://a.example:PORT", "http://127.0.0.1:PORT")
        == b"reached"
    )
    with pytest.raises(AddressDenied):
        dial(Names(["127.0.0.1"]), "a.example", "http://a.example:PORT", "http://127.0.0.1:1")


def test_localhost_resolves_to_loopback_only() -> None:
    for host in ("localhost", "api--shop.localhost"):
        assert dial(Names(["127.0.0.1"]), host, f"http://{host}:PORT") == b"reached"
        with pytest.raises(AddressDenied):
            dial(Names(["10.0.0.1"]), host, f"http://{host}:PORT")
    with pytest.raises(AddressDenied):
        dial(Names(["127.0.0.1"]), "notlocalhost", "http://notlocalhost:PORT")
    assert dial(SystemResolver(), "localhost", "http://localhost:PORT") == b"reached"


def test_checked_address_is_the_dialed_address() -> None:
    """The second answer of a rebinding name server is never requested."""
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    assert dial(names, "a.example", "http://a.example:PORT", "http://127.0.0.1:PORT") == b"reached"
    assert names.asked == 1


def test_address_that_changes_after_the_check_is_not_dialed(monkeypatch: pytest.MonkeyPatch) -> None:
    names, dialed = Names(["1.1.1.1"], ["127.0.0.1"], ["1.1.1.1", "127.0.0.1"]), []

    async def connect(_network: Any, host: str, *_: Any) -> Any:
        dialed.append(host)
        raise httpcore.ConnectError

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)
    for error in (httpcore.ConnectError, AddressDenied, httpcore.ConnectError):
        with pytest.raises(error):
            dial(names, "a.example", "http://a.example:PORT")
    assert dialed == ["1.1.1.1", "1.1.1.1"]


def test_only_allowed_addresses_are_tried() -> None:
    names = Names(["::1", "10.0.0.1", "127.0.0.1"])
    assert dial(names, "a.example", "http://a.example:PORT", "http://127.0.0.1:PORT") == b"reached"


def test_unreachable_address_falls_back_to_next() -> None:
    rules = ("http://a.example:PORT", "http://[::1]:PORT", "http://127.0.0.1:PORT")
    assert dial(Names(["::1", "127.0.0.1"]), "a.example", *rules) == b"reached"


def test_name_without_address_raises() -> None:
    with pytest.raises(NameNotResolved):
        dial(Names([]), "a.example", "http://a.example:PORT")


def test_hanging_resolver_times_out() -> None:
    async def silent(_host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def main() -> None:
        with pytest.raises(httpcore.ConnectTimeout):
            await Dialer(Egress(()), silent).connect_tcp("a.example", 80, seconds=0.05)

    asyncio.run(main())


def test_hanging_lookups_block_neither_threads_nor_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest may call names below a domain of its own whose name server never responds."""
    silent, system = threading.Event(), socket.getaddrinfo

    def asked(host: Any, *more: Any, **fields: Any) -> Any:
        if host.endswith(".silent.example"):
            silent.wait(60)
        return system("127.0.0.1" if host.endswith(".example") else host, *more, **fields)

    monkeypatch.setattr(socket, "getaddrinfo", asked)

    async def main() -> None:
        resolver = SystemResolver()
        one, other = Dialer(Egress(()), resolver), Dialer(Egress(()), resolver)
        for number in range(4 * MAX_LOOKUPS_PER_RESOURCE):  # none of which is waited for
            with pytest.raises(httpcore.ConnectTimeout):
                await one.connect_tcp(f"{number}.silent.example", 80, seconds=0.01)
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(lambda: "done") == "done"
            with pytest.raises(AddressDenied):
                await other.connect_tcp("a.example", 80, seconds=20)
        silent.set()
        with pytest.raises(AddressDenied):
            await one.connect_tcp("a.example", 80, seconds=20)
        resolver.close()

    asyncio.run(main())
