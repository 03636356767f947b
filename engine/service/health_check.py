"""Health check before activation: one request to each public resource of the new deployment."""

import asyncio
from collections.abc import Callable

from engine.deploy.serving import PreparedProject
from engine.errors import SvcError
from engine.gateway.app import Gateway, GatewaySettings
from engine.http.exchange import MemoryExchange, Request
from engine.manifest.model import Project, host_label
from engine.timeline.bus import TimelineBus

TIMEOUT_SECONDS = 30.0


class HealthCheckFailed(SvcError):
    """A resource failed its health check, so the deployment was not activated."""

    code = "check-failed"


async def check_health(
    project: Project,
    path: str,
    ready: PreparedProject,
    domain: str,
    timeline_of: Callable[[str], TimelineBus],
) -> None:
    """Request a path from every public resource. Raises `HealthCheckFailed` for the first failure."""
    gateway = Gateway(lambda: ready.routes, timeline_of, GatewaySettings())
    for name, resource in project.resources.items():
        if not resource.public:
            continue
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                response = await _get(gateway, f"{host_label(project.name, name)}.{domain}", path)
        except TimeoutError:
            outcome = f"did not respond to {path} within {TIMEOUT_SECONDS:.0f} s"
        else:
            status = response.status or 500
            if not response.aborted and status < 400:
                continue
            outcome = f"responded to {path} with {status}"
            if response.aborted:
                outcome = f"aborted its response to {path}"
        raise HealthCheckFailed(
            f"health check failed: resource {name} {outcome}; the live version is unchanged",
            "Run `svc logs` for its output; project.check in svc.toml sets the path.",
        )


async def _get(gateway: Gateway, host: str, path: str) -> MemoryExchange:
    """Send a GET to the gateway and return its exchange once the response has ended."""
    path, _, query = path.partition("?")
    headers = [(b"host", host.encode()), (b"user-agent", b"svc-check"), (b"accept", b"*/*")]
    request = Request(method="GET", scheme="http", path=path, query=query.encode(), headers=headers)
    exchange = MemoryExchange(request)
    await gateway(exchange)
    return exchange
