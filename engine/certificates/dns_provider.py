"""TXT records of DNS-01 challenges, at a DNS provider or by updates (RFC 2136). Every call blocks.

It needs the optional packages of the extra `dns`.
"""

import re
import socket
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from secrets import token_hex
from urllib.parse import urlsplit

import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.resolver
import dns.tsig
import dns.update
from dns.exception import DNSException
from lexicon.client import Client
from lexicon.config import ConfigResolver
from lexicon.exceptions import ProviderNotAvailableError

from engine.certificates.settings import AuthorityError
from engine.errors import InvalidUsage

RFC2136 = "rfc2136"
SERVER, KEY = "LEXICON_RFC2136_SERVER", "LEXICON_RFC2136_AUTH_TOKEN"
TTL_SECONDS = 60
CALL_SECONDS = 10.0
VISIBLE_SECONDS = 120.0
"""How long to wait until the name servers of the zone have a record."""
POLL_SECONDS = 2.0
_SECRET = re.compile(r"LEXICON_.*(TOKEN|PASSWORD|SECRET|KEY)")
Records = Sequence[tuple[str, str]]
"""Names and texts."""


class DnsProvider:
    """The records of a domain at a provider that lexicon has, or at a server with updates.

    `add` and `remove` raise `AuthorityError`.
    """

    def __init__(self, name: str, domain: str, environ: Mapping[str, str]) -> None:
        """Credentials are variables of the environment, as lexicon names them. Raises `InvalidUsage`."""
        self._name = name
        self._secrets = [value for key, value in environ.items() if value and _SECRET.match(key)]
        if name == RFC2136:
            self._server = _UpdatableServer(environ)
        else:
            self._check(domain, environ)

    def add(self, records: Records) -> None:
        """Create records and wait until the name servers return them, at most `VISIBLE_SECONDS`."""
        placed = self._change("create", records)
        deadline = time.monotonic() + VISIBLE_SECONDS
        while placed and not _visible(placed) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def remove(self, records: Records) -> None:
        self._change("remove", records)

    def _change(self, verb: str, records: Records) -> Records:
        """Return the records with the names to which CNAME records lead."""
        placed = []
        for name, text in records:
            place = name
            try:
                place = _place(name)
                zone = dns.resolver.zone_for_name(place)
                if self._name == RFC2136:
                    self._server.update(verb, zone, place, text)
                else:
                    with self._client(place) as client:
                        if verb == "create":
                            client.create_record("TXT", place, text)
                        else:
                            client.delete_record(None, "TXT", place, text)
            except Exception as error:  # lexicon has no class of its own for what its providers raise.
                reason = repr(error)
                for secret in self._secrets:
                    reason = reason.replace(secret, "…")
                message = f"the DNS provider {self._name} cannot {verb} the record {place}: {reason:.300}"
                if place != name:
                    message += (
                        f". {name} is a CNAME for it: use the credentials of its zone, or remove the CNAME"
                    )
                raise AuthorityError(message) from None
            placed.append((place, text))
        return placed

    def _client(self, name: str) -> Client:
        settings = {"provider_name": self._name, "domain": name, "resolve_zone_name": "1"}
        resolver = ConfigResolver()  # type: ignore[no-untyped-call]
        return Client(resolver.with_dict(settings).with_env())

    def _check(self, domain: str, environ: Mapping[str, str]) -> None:
        """Raise `InvalidUsage` if the provider is unknown, or if none of its options is set."""
        try:
            provider = self._client(domain).provider_class
        except ProviderNotAvailableError as error:
            hint = f"Use {RFC2136}, or a provider of lexicon in lower case, for example cloudflare."
            raise InvalidUsage(f"--acme-dns {self._name}: {error}", hint) from None
        except DNSException:
            return  # Without DNS, the first order says what is missing.
        parser = ArgumentParser(add_help=False)
        provider.configure_parser(parser)
        variables = [f"LEXICON_{self._name}_{each}".upper() for each in vars(parser.parse_known_args([])[0])]
        if variables and not any(environ.get(each) for each in variables):
            hint = f"Set those that your account has: {', '.join(variables)}."
            raise InvalidUsage(f"--acme-dns {self._name} has no credentials in the environment", hint)


class _UpdatableServer:
    """A DNS server that accepts updates with a key (RFC 2136, RFC 8945)."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises `InvalidUsage`."""
        try:
            address = urlsplit(f"//{environ.get(SERVER, '')}")
            self._host, self._port = address.hostname or "", address.port or 53
            algorithm, name, secret = environ.get(KEY, "").split(":")
            self._key = dns.tsig.Key(name, secret, algorithm)
            dns.tsig.get_context(self._key)  # type: ignore[no-untyped-call]
            if not self._host:
                raise ValueError
        except (ValueError, DNSException, NotImplementedError):
            raise InvalidUsage(
                f"--acme-dns {RFC2136} needs the server and its key in the environment",
                f"Set {SERVER}=HOST[:PORT] and {KEY}=ALGORITHM:NAME:SECRET, for example "
                "hmac-sha256:svc:BASE64.",
            ) from None

    def update(self, verb: str, zone: dns.name.Name, name: str, text: str) -> None:
        """Create or remove a record. Raises OSError and `DNSException`."""
        message = dns.update.UpdateMessage(zone, keyring=self._key)
        relative = dns.name.from_text(name).relativize(zone)
        if verb == "create":
            message.add(relative, TTL_SECONDS, "TXT", text)
        else:
            message.delete(relative, "TXT", text)
        address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)[0][4][0]
        answer = dns.query.tcp(message, str(address), timeout=CALL_SECONDS, port=self._port)
        if answer.rcode() != dns.rcode.NOERROR:
            raise OSError(f"{self._host} answers {dns.rcode.to_text(answer.rcode())}")


def _place(name: str) -> str:
    """Return where the record of a name belongs: at the end of its CNAME records if it has its own."""
    target = dns.resolver.canonical_name(name)
    # The CNAME of a wildcard is for names without a record, so also for a made-up one.
    other = f"svc-{token_hex(8)}.{name.partition('.')[2]}"
    return name if target == dns.resolver.canonical_name(other) else target.to_text(omit_final_dot=True)


def _visible(records: Records) -> bool:
    """Return whether each name server of the zones that answers has the records."""
    port, answered = dns.resolver.get_default_resolver().port, False
    for name in {name for name, _ in records}:
        expected = {text for each, text in records if each == name}
        query = dns.message.make_query(name, "TXT")
        for address in _name_servers(name):
            try:
                answer, _ = dns.query.udp_with_fallback(query, address, timeout=CALL_SECONDS, port=port)
            except (OSError, DNSException):
                continue
            rows = (row for each in answer.answer if each.rdtype == dns.rdatatype.TXT for row in each)
            if not expected <= {b"".join(row.strings).decode() for row in rows}:
                return False
            answered = True
    return answered


def _name_servers(name: str) -> list[str]:
    """Return the addresses of the name servers of a name, empty if DNS fails."""
    try:
        servers = dns.resolver.resolve(dns.resolver.zone_for_name(name), "NS")
        return [
            row.to_text()
            for server in servers
            for kind in ("A", "AAAA")
            for row in dns.resolver.resolve(server.target, kind, raise_on_no_answer=False)
        ]
    except DNSException:
        return []
