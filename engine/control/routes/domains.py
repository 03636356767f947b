"""Routes and models for the custom domains of projects: their states, and the check of a name."""

from collections.abc import Callable

from quart import Blueprint
from quart_schema import validate_response

from engine.control.app import principal, require
from engine.control.schemas import StrictModel
from engine.control.schemas.accounts import iso
from engine.service.deployer import Deployer
from engine.service.domain_checks import DnsRecord, DomainChecks, Reached, summary
from engine.service.domains import DomainState
from engine.service.spec import NO_PROJECT_DIR


class DomainOut(StrictModel):
    """A domain and its resource.

    `waiting`: it does not reach this service yet. `valid`: it does. `failed`: it did, or another has it.
    `since` is the time of the last change of the state, `declared` that of the first deploy with the domain.
    `detail` is what the last check found. `certificate` is the state of its certificate by ACME, as a text;
    empty if the service obtains none.
    """

    name: str
    resource: str
    state: DomainState
    since: str
    declared: str
    detail: str
    certificate: str


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


def blueprint(service: Deployer, checks: DomainChecks, certificate: Callable[[str, str], str]) -> Blueprint:
    """Return the routes. `certificate` returns the state of the certificate of a project's host name."""
    routes = Blueprint("domains", __name__)

    async def resources(project: str) -> dict[str, str]:
        """Return the resource of each domain of the live deployment."""
        live = await service.history.live(project)
        if live is None:
            return {}
        deployment = await service.history.get(project, live.deployment)
        return deployment.served(NO_PROJECT_DIR).domains

    @routes.get("/v1/projects/<project>/domains")
    @validate_response(DomainList)
    async def domains(project: str) -> DomainList:
        """List the domains of the live deployment, in the order of the manifest."""
        require(project, "viewer")
        states = await service.domains.get(project)
        listed = [(states[name], each) for name, each in (await resources(project)).items() if name in states]
        return DomainList(
            domains=[
                DomainOut(
                    name=domain.name,
                    resource=resource,
                    state=domain.state,
                    since=iso(domain.since_ns),
                    declared=iso(domain.declared_ns),
                    detail=domain.detail,
                    certificate=certificate(project, domain.name),
                )
                for domain, resource in listed
            ]
        )

    @routes.post("/v1/projects/<project>/domains/<domain>/check")
    @validate_response(DomainCheckOut)
    async def check(project: str, domain: str) -> DomainCheckOut:
        """Check a name, declared or not: what DNS returns for it, and whether that reaches this service."""
        require(project, "deployer")
        name = checks.parse(domain)
        await service.domains.check_free(project, [name], lambda other: principal().has(other, "viewer"))
        answers, problem = await checks.check(name)
        declared = (await service.domains.get(project)).get(name)
        if declared is not None:
            reached, detail = summary(answers, problem)
            if await service.domains.checked(project, declared, reached=reached, detail=detail):
                await service.reload(project)
            declared = service.domains.known(project).get(name)
        return DomainCheckOut(
            name=name,
            resource=(await resources(project)).get(name),
            state=declared.state if declared is not None else None,
            dns=problem,
            records=await checks.records(name),
            addresses=answers,
        )

    return routes
