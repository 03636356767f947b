"""Health check before activation: one request to each public resource of the new deployment."""

import asyncio
from collections.abc import Callable
from typing import Any

from engine.deploy.serving import PreparedProject
from engine.errors import SvcError
from engine.gateway.app import Cut, Gateway, GatewaySettings
from engine.manifest.model import Project
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
                status = await _ask(gateway, f"{name}--{project.name}.{domain}", path)
        except TimeoutError:
            outcome = f"did not respond to {path} within {TIMEOUT_SECONDS:.0f} s"
        except Cut:
            outcome = f"aborted its response to {path}"
        else:
            if status < 400:
                continue
            outcome = f"responded to {path} with {status}"
        raise HealthCheckFailed(
            f"health check failed: resource {name} {outcome}; the live version is unchanged",
            "Run `svc logs` for its output; project.check in svc.toml sets the path.",
        )


async def _ask(gateway: Gateway, host: str, path: str) -> int:
    """Return the status of a GET request, after reading the whole response."""
    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": raw,
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", host.encode()), (b"user-agent", b"svc-check"), (b"accept", b"*/*")],
    }
    statuses: list[int] = []
    asked = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if asked.is_set():
            await asyncio.Event().wait()
        asked.set()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await gateway(scope, receive, send)
    return statuses[0] if statuses else 500
