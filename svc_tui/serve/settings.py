"""How a service serves: what `svc serve` is started with."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.alerts.alerts import Target
from engine.certificates.settings import AcmeSettings
from engine.control.auth.accounts import Passwords
from engine.fleet.node import NodeAddress
from engine.gateway.client_address import Network
from engine.http.connection_limits import PER_ADDRESS
from engine.http.exchange import MAX_BODY
from engine.http.tls import Certificate
from engine.manifest.egress import Collector
from engine.manifest.model import host_label
from engine.wasm.execution.memory_budget import default_budget

OWN_MEMORY_SHARE = 8
"""One eighth of the memory budget is for the process that supervises workers."""
SERVICE_DIR = "service"
"""Data folder of the service itself. It cannot collide with projects, which have their own folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """How to serve. `public` has a list of bound sockets for each process, which may listen or not.

    `grace` is in seconds. `origin` is the scheme and port of public URLs: `https://{}`, `http://{}:8080`.
    """

    data: Path
    public: list[list[socket.socket]]
    control: list[socket.socket]
    domain: str
    origin: str
    certificate: Certificate | None
    acme: AcmeSettings | None = None
    """Authority that certificates are obtained from."""
    plain: Sequence[socket.socket] = ()
    """With `acme`: sockets that answer challenges and redirect to https."""
    grace: float
    log: Callable[[str, str], None]
    """Takes a level and a line for the service's log."""
    per_address: int = PER_ADDRESS
    """Maximum connections per client address in each process, 0 for no limit."""
    proxied: bool = False
    """Whether a reverse proxy terminates TLS."""
    trusted_proxies: tuple[Network, ...] = ()
    """Networks of proxies that report the addresses of their clients."""
    max_body: int = MAX_BODY
    """Maximum request body in bytes."""
    memory: int = 0
    """Memory budget of all processes in bytes, 0 for the default."""
    spare: Sequence[socket.socket] = ()
    """Duplicates of the sockets. Requests there get 503 while the service becomes a fleet."""
    join: str = ""
    """Token of a fleet to join."""
    fleet_listen: NodeAddress | None = None
    """Address of this node in the fleet it joins (default: this machine's towards the fleet)."""
    otlp: Collector | None = None
    """OpenTelemetry collector that gets the records and metrics of all projects."""
    region: str = ""
    """Region of this machine, which its records have."""
    notify: Sequence[Target] = ()
    """Receivers of alerts."""
    serving: bool = True
    """False for a command with the folder of a stopped service, whose options it does not know.

    No schedule runs then, no domain is checked, no alert is sent.
    """
    console: bool = True
    """Whether to serve the Console to browsers."""
    backup: str = ""
    """URL of an object store for backups, empty for none."""
    log_days: int = 7
    """Days of the history of tables, and of the moments that a backup can be restored to."""
    passwords: Passwords = field(default_factory=Passwords)
    """Password hashing and its cost."""

    @property
    def secure(self) -> bool:
        return self.certificate is not None or self.acme is not None

    @property
    def scheme(self) -> str:
        """Scheme of a TLS-terminating proxy, else empty."""
        return "https" if self.proxied else ""

    def memory_shares(self) -> tuple[int, int]:
        """Return the memory budgets of this process and of each worker, in bytes.

        With workers, this process runs guests for health checks and schedules only.
        """
        total, workers = self.memory or default_budget(), len(self.public)
        own = total // OWN_MEMORY_SHARE if workers > 1 else total
        return own, (total - own) // workers

    @property
    def address(self) -> str:
        return self.origin.format(self.domain)

    def url_of(self, project: str, resource: str = "") -> str:
        """Return the public URL of a resource, or of the project without one."""
        return self.origin.format(f"{host_label(project, resource)}.{self.domain}")


def project_dir(data: Path, project: str) -> Path:
    return data / "projects" / project if project else data / SERVICE_DIR
