"""Models of custom domains."""

from engine.control.schema import StrictModel
from engine.service.domain_checks import DnsRecord, Reached
from engine.service.domains import DomainState


class DomainOut(StrictModel):
    """A domain and its resource.

    `waiting`: it does not reach this service yet. `valid`: it does. `failed`: it did, or another has it.
    `since` is the time of the last change of the state, `declared` that of the first deploy with the domain.
    `detail` is what the last check found.
    """

    name: str
    resource: str
    state: DomainState
    since: str
    declared: str
    detail: str


class DomainList(StrictModel):
    """The domains of a project."""

    domains: list[DomainOut]


class DomainCheckOut(StrictModel):
    """The check of a name. `resource` and `state` are `null` unless the live deployment has the name.

    `dns` is why DNS returns no addresses. `records` point the name to this service: the CNAME, or the others.
    """

    name: str
    resource: str | None
    state: DomainState | None
    dns: str
    records: list[DnsRecord]
    addresses: list[Reached]
