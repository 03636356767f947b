"""Checks of issuance: the directory of an authority, and CAA records of a DNS server of the test."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.certificates.issuance import Issuance, issuance
from engine.certificates.settings import AcmeSettings
from engine.service.domain_checks import DnsRecord

dns = pytest.importorskip("dns", reason="dnspython is not installed (extra acme)")
ZONE = {
    "forbidden.example.": ['0 issue "other.example"', '0 issue "third.example; a=b"'],
    "nobody.example.": ['0 issue ";"'],
    "permitted.example.": ['0 issue "other.example"', '0 Issue "ca.example; validationmethods=http-01"'],
    "mail.example.": ['0 iodef "mailto:ann@mail.example"', '0 issuewild ";"'],
}


class DnsServer(asyncio.DatagramProtocol):
    """Answers with the CAA records of `ZONE`; below `broken.example` it fails, other names do not exist."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        from dns import flags, message, rcode, rrset

        query = message.from_wire(data)
        answer, name = message.make_response(query), query.question[0].name
        answer.flags |= flags.RA
        if str(name) == "alias.example.":
            answer.answer.append(rrset.from_text(name, 60, "IN", "CNAME", "forbidden.example."))
            name = type(name)(("forbidden", "example", ""))
        if records := ZONE.get(str(name).lower()):
            answer.answer.append(rrset.from_text(name, 60, "IN", "CAA", *records))
        elif str(name).endswith("broken.example."):
            answer.set_rcode(rcode.SERVFAIL)
        elif len(name) > 2:
            answer.set_rcode(rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), addr)


async def ask(names: list[str], monkeypatch: pytest.MonkeyPatch, directory: Any) -> list[Issuance | None]:
    from dns import asyncresolver

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        text = json.dumps(directory).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        DnsServer, local_addr=("127.0.0.1", 0)
    )
    resolver = asyncresolver.Resolver(configure=False)
    resolver.nameservers, resolver.port = ["127.0.0.1"], transport.get_extra_info("sockname")[1]
    monkeypatch.setattr(asyncresolver, "Resolver", lambda: resolver)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/directory"
    try:
        return [await issuance(AcmeSettings("ann@example.com", url), name) for name in names]
    finally:
        transport.close()
        server.close()


def test_records_at_the_name_or_above_it_permit_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "a.b.forbidden.example": ("forbidden.example", "only other.example, third.example"),
        "alias.example": ("forbidden.example", "only other.example, third.example"),
        "www.nobody.example": ("nobody.example", "no authority"),
        "permitted.example": None,
        "www.mail.example": None,
        "free.example": None,
    }
    directory = {"meta": {"caaIdentities": ["ca.example", "www.ca.example"]}}
    found = asyncio.run(ask([*names, "www.broken.example"], monkeypatch, directory))
    for name, expected, each in zip(names, names.values(), found, strict=False):
        if expected is None:
            assert each == Issuance(), name
        else:
            where, who = expected
            record = DnsRecord("CAA", where, '0 issue "ca.example"')
            assert each == Issuance(f"the CAA records of {where} permit {who}", record)
    broken = found[-1]
    assert broken is not None and "DNS fails for the CAA records of www.broken.example" in broken.problem


def test_authority_that_names_no_identities_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(ask(["forbidden.example"], monkeypatch, {})) == [Issuance()]


@pytest.mark.parametrize("directory", [[], "text"])
def test_answer_that_is_no_directory_is_a_problem(monkeypatch: pytest.MonkeyPatch, directory: Any) -> None:
    (found,) = asyncio.run(ask(["free.example"], monkeypatch, directory))
    assert found is not None and "cannot be used" in found.problem


def test_service_without_an_authority_has_no_result_and_a_silent_one_is_a_problem(tmp_path: Path) -> None:
    assert asyncio.run(issuance(None, "shop.example.org")) is None
    for file, problem in (("", "cannot be used"), (str(tmp_path / "missing"), "No such file")):
        settings = AcmeSettings("ann@example.com", "https://127.0.0.1:1/directory", file)
        found = asyncio.run(issuance(settings, "shop.example.org"))
        assert found is not None and problem in found.problem
