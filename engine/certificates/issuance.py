"""Checks whether the certificate authority of a service can issue certificates for a host name.

CAA records (RFC 8659) at a name, or else at the closest name above it, list the authorities that may.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

import certifi
import httpx

from engine.certificates.settings import AcmeSettings
from engine.service.domain_checks import TIMEOUT_SECONDS, DnsRecord


@dataclass(frozen=True, slots=True)
class Issuance:
    """Why the authority cannot issue a certificate, empty if it can. `record` is to be set then, if known."""

    problem: str = ""
    record: DnsRecord | None = None


async def issuance(settings: AcmeSettings | None, name: str) -> Issuance | None:
    """Return whether the authority answers and CAA records permit it; `None` for a service without one."""
    if settings is None:
        return None
    try:
        context = await asyncio.to_thread(
            ssl.create_default_context, cafile=settings.ca_file or certifi.where()
        )
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            httpx.AsyncClient(verify=context, timeout=None) as client,
        ):
            directory = (await client.get(settings.directory)).json()
        identities = directory.get("meta", {}).get("caaIdentities", [])
    except (TimeoutError, httpx.HTTPError, OSError, ValueError, AttributeError) as error:
        reason = str(error).partition(" (_ssl")[0] or f"no answer within {TIMEOUT_SECONDS:.0f} s"
        return Issuance(f"the authority at {settings.directory} cannot be used: {reason}")
    return await _permitted(name, identities) if identities else Issuance()


async def _permitted(name: str, identities: Sequence[str]) -> Issuance:
    """Return whether CAA records permit one of the identities of an authority."""
    from dns.asyncresolver import Resolver
    from dns.exception import DNSException
    from dns.resolver import NXDOMAIN

    labels = name.split(".")
    for place in (".".join(labels[at:]) for at in range(len(labels))):
        try:
            answer = await Resolver().resolve(
                place, "CAA", raise_on_no_answer=False, lifetime=TIMEOUT_SECONDS, search=False
            )
        except NXDOMAIN:
            continue
        except DNSException as error:
            return Issuance(f"DNS fails for the CAA records of {place}, which an authority reads: {error}")
        if answer.rrset:
            values = [each.value.decode() for each in answer.rrset if each.tag.lower() == b"issue"]
            permitted = [each.partition(";")[0].strip() for each in values]
            if not values or {*permitted} & {*identities}:
                break
            where = str(answer.rrset.name).removesuffix(".")
            named = ", ".join(sorted(filter(None, permitted)))
            text = f"the CAA records of {where} permit {f'only {named}' if named else 'no authority'}"
            return Issuance(text, DnsRecord("CAA", where, f'0 issue "{identities[0]}"'))
    return Issuance()
