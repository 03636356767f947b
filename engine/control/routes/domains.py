"""Routes and models for the custom domains of projects: their states, and the check of a name."""

import asyncio
from dataclasses import dataclass

from engine.certificates.issuance import Issuance, issuance
from engine.certificates.settings import AcmeSettings
from engine.certificates.state import CertificateState, CertificateStates, ServiceCertificate
from engine.control.app import Routes, principal
from engine.control.schemas import StrictModel
from engine.manifest.egress import DomainInvalid, parse_domain
from engine.service.deployer import NO_PROJECT_DIR, Deployer
from engine.service.domain_checks import DnsRecord, DomainChecks, Reached, summary
from engine.service.domains import DomainState


class DomainOut(StrictModel):
    """A domain and its resource.

    `waiting`: it does not reach this service yet. `valid`: it does. `failed`: it did, or another has it.
    `since` is the time of the last change of the state, `declared` that of the first deploy with the domain.
    `detail` is what the last check found. `certificate` is `null` without TLS, or if a proxy terminates it.
    """

    name: str
    resource: str
    state: DomainState
    since: str
    declared: str
    detail: str
    certificate: CertificateState | None


class DomainList(StrictModel):
    """The domains of a project, and the certificate of its addresses: of the first that has no valid one."""

    domains: list[DomainOut]
    certificate: CertificateState | None


class ServiceCertificateOut(StrictModel):
    """The certificate of the service, `null` without TLS, or if a proxy terminates it."""

    certificate: ServiceCertificate | None


class ServiceCheckIn(StrictModel):
    """The name that is checked: the domain of the service, or empty for it."""

    name: str = ""


class DomainCheckOut(StrictModel):
    """The check of a name. `resource` is that of the domain, `state` is `null` if the project lacks the name.

    `certificate` is its state before this check; with `retries`, it is ordered again. `issuance` is whether
    the authority can issue one, `null` without an authority. `dns` is why DNS returns no addresses. `records`
    point the name to this service: the CNAME, or the others. For the domain of the service, there are none.
    """

    name: str
    resource: str | None
    state: DomainState | None
    certificate: CertificateState | None
    retries: bool
    issuance: Issuance | None
    dns: str
    records: list[DnsRecord]
    addresses: list[Reached]


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a service and of its projects, and their checks. `authority` issues its certificates."""

    service: Deployer
    checks: DomainChecks
    certificates: CertificateStates
    authority: AcmeSettings | None

    async def resources(self, project: str) -> dict[str, str]:
        """Return the resource of each domain of the live deployment."""
        live = await self.service.history.live(project)
        if live is None:
            return {}
        deployment = await self.service.history.get(project, live.deployment)
        return deployment.served(NO_PROJECT_DIR).domains

    async def check(self, project: str, name: str) -> DomainCheckOut:
        """Check a name of a project, or that of the service; order a certificate again.

        Raises `DomainInvalid` and `DomainTaken`.
        """
        service, certificates = self.service, self.certificates
        checks, authority = self.checks, self.authority
        of_service = name == certificates.domain
        own = of_service or name in certificates.hosts().get(project, ())
        if not own:
            await service.domains.check_free(project, [name], lambda other: principal().has(other, "viewer"))
        (answers, problem), issuable = await asyncio.gather(checks.check(name), issuance(authority, name))
        declared = None if of_service else (await service.domains.get(project)).get(name)
        wild = authority is not None and authority.dns is not None and own and declared is None
        if issuable == Issuance() and not wild:
            issuable = Issuance(await checks.port_80(name, answers))
        reached, detail = summary(answers, problem)
        state: DomainState | None = ("valid" if reached else "waiting") if own else None
        if declared is not None:
            if await service.domains.checked(project, declared, reached=reached, detail=detail):
                await service.reload(project)
            declared = service.domains.known(project).get(name)
            state = declared.state if declared is not None else None
        owner = "" if of_service else project
        certificate = certificates.of(owner, name) if state else None
        retries = (state == "valid" or wild) and certificate and certificate.detail and issuable == Issuance()
        if retries and certificates.manager is not None:
            certificates.manager.activated(owner)
        return DomainCheckOut(
            name=name,
            resource=None if of_service else (await self.resources(project)).get(name),
            state=state,
            certificate=certificate,
            retries=bool(retries),
            issuance=issuable,
            dns=problem,
            records=await checks.records(name),
            addresses=answers,
        )


def blueprint(names: Names) -> Routes:
    """Return the routes of projects."""
    routes = Routes("domains", __name__)

    @routes.get("/v1/projects/<project>/domains", "viewer")
    async def domains(project: str) -> DomainList:
        """List the domains of the live deployment, in the order of the manifest."""
        states, certificates = await names.service.domains.get(project), names.certificates
        resources = await names.resources(project)
        listed = [
            DomainOut.from_value(states[name], resource=resource, certificate=certificates.of(project, name))
            for name, resource in resources.items()
            if name in states
        ]
        return DomainList(certificate=certificates.of_addresses(project, states), domains=listed)

    @routes.post("/v1/projects/<project>/domains/<domain>/check", "deployer")
    async def check(project: str, domain: str) -> DomainCheckOut:
        """Check an address of the project or a domain: what DNS returns, and whether it reaches this service.

        Without a problem, another attempt to obtain a certificate begins if the last one failed.
        """
        return await names.check(project, parse_domain(domain))

    return routes


def certificate_blueprint(names: Names) -> Routes:
    """Return the routes of the service's own domain. Their calls raise `DomainInvalid` for another name."""
    routes = Routes("certificate", __name__)

    @routes.get("/v1/certificate", "viewer")
    async def service_certificate() -> ServiceCertificateOut:
        """Return the state of the service's own certificate. Requires the role viewer of every project."""
        return ServiceCertificateOut(certificate=names.certificates.of_service())

    @routes.post("/v1/certificate/check", "deployer")
    async def check(data: ServiceCheckIn) -> DomainCheckOut:
        """Check the domain of the service as one of a project. Requires the role deployer of all."""
        domain = names.certificates.domain
        if data.name and (name := parse_domain(data.name)) != domain:
            hint = "Check a domain of a project in the folder of the project."
            raise DomainInvalid(f"{name} is not the domain of the service, {domain}", hint)
        return await names.check("", domain)

    return routes
