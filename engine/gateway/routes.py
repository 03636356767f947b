"""The routing table: the host of a request selects a resource, then the path selects a mount of it.

A `RouteTable` is immutable. A new version of a resource, or a changed mount, replaces the whole table, so a
request uses one table from start to end.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.door import DOMAIN
from engine.eager import in_task
from engine.errors import SvcError
from engine.gateway.on_demand import OnDemand
from engine.gateway.static.responder import StaticResponder
from engine.http.connection_limits import client_key
from engine.http.exchange import Request
from engine.manifest.egress import below
from engine.manifest.model import Project, Resource, host_label, normal_path, parse_rate

if TYPE_CHECKING:  # Its host functions import wasmtime.
    from engine.wasm.execution.run_state import GuestRequest, RunReport

MAX_ADDRESSES = 10_000
"""Addresses that are remembered; of more, the one without requests for longest counts as new."""


class ClientRate:
    """A token bucket for each client address, of which IPv6 addresses of one /64 network share one.

    A bucket is stored as the time in ns at which it is full again. Use on one event loop.
    """

    def __init__(self, rate: str, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`rate` is a valid key of a manifest."""
        requests, seconds = parse_rate(rate)
        self._token_ns = seconds * 10**9 // requests
        self._bucket_ns = self._token_ns * requests
        self._clock = clock
        self._full_at: OrderedDict[str, int] = OrderedDict()

    def take(self, address: str) -> int:
        """Use a token of an address; return 0, or the nanoseconds until the next token."""
        key, now = client_key(address), self._clock()
        full_at = max(self._full_at.get(key, now), now) + self._token_ns
        if full_at - now > self._bucket_ns:
            return full_at - now - self._bucket_ns
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > MAX_ADDRESSES:
            self._full_at.popitem(last=False)
        return 0


_AUTHORITY = re.compile(
    r"(\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.~!$&'()*+,;=%-]*))(:(?P<port>[0-9]{0,5}))?", re.ASCII
)
_LAST_PORT = 65535
_INTERNAL = re.compile(rf"([a-z0-9-]+?)--([a-z0-9-]+)\.{re.escape(DOMAIN)}")
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})


class DynamicVersion(Protocol):
    """A built version of a dynamic resource, which runs guest code."""

    async def run(self, request: "GuestRequest") -> "RunReport":
        """Run the guest for one request and send its response."""


class PendingBuild:
    """The result of a resource's first build, or of the build of a save. Requests wait for it."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._finished = asyncio.Event()
        self._version: BuiltVersion | None = None

    def finish(self, version: "BuiltVersion | Outdated | None") -> None:
        """Set the version that waiting requests continue with; `None` if the resource was removed."""
        self._version = version.version if isinstance(version, Outdated) else version
        self._finished.set()

    async def wait(self, seconds: float) -> "BuiltVersion | None":
        """Wait up to `seconds` for the build and return its version; `None` after a timeout."""
        await in_task()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._finished.wait(), seconds)
        return self._version


@dataclass(frozen=True, slots=True)
class NotReady:
    """The version of a resource that cannot serve: `first_build` is running, or it failed with `error`."""

    error: SvcError | None = None
    first_build: PendingBuild | None = None


@dataclass(frozen=True, slots=True)
class Outdated:
    """A version whose files were saved since: `build` replaces it, or leaves it if that fails."""

    version: "BuiltVersion"
    build: PendingBuild


BuiltVersion = DynamicVersion | StaticResponder | NotReady
Version = BuiltVersion | Outdated | OnDemand


class Endpoint:
    """A routing target: a resource with its version and its mounts."""

    __slots__ = (
        "_endpoints", "_fallback", "_mounts", "canonical", "files", "hsts", "name", "not_found", "project",
        "public", "rate", "recorded", "sessions", "stale", "version",
    )  # fmt: skip

    def __init__(
        self,
        project: Project,
        resource: Resource,
        version: Version,
        endpoints: Mapping[str, "Endpoint"],
        canonical: str = "",
    ) -> None:
        """`endpoints` maps the name of each resource of the project to its Endpoint.

        Requests are redirected to the host `canonical` unless it is empty.
        """
        self.canonical = canonical
        self.hsts = resource.hsts
        self.files = resource.files
        self.not_found = resource.not_found
        self.project = project.name
        self.recorded = project.recorded
        self.stale = resource.reads == "stale"
        self.sessions = any(each.reads == "stale" for each in project.resources.values())
        self.name = resource.name
        self.public = resource.public
        self.rate = ClientRate(resource.rate) if resource.rate else None
        self.version = version
        self._mounts = sorted(resource.mounts, key=lambda mount: (not mount.exact, -len(mount.prefix)))
        self._fallback = resource.fallback
        self._endpoints = endpoints

    @property
    def fallback(self) -> "Endpoint | None":
        """The resource that answers requests without a mount and a file."""
        return self._endpoints[self._fallback] if self._fallback else None

    def unmounted(self, path: str) -> str:
        """Return the other resource whose name is the first segment of a path without a mount, or ""."""
        name = normal_path(path)[1:].partition("/")[0]
        return name if name in self._endpoints and name != self.name else ""

    def match_mount(self, path: str) -> "Endpoint | None":
        """Return the target of the mount that matches a URL path, or `None` if this resource handles it.

        An exact mount wins over a prefix mount, a longer prefix over a shorter one.
        """
        mount = next((mount for mount in self._mounts if mount.matches(path)), None)
        return self._endpoints[mount.target] if mount is not None else None


class RouteTable:
    """An immutable map from host name to the public resource that handles its requests."""

    __slots__ = ("_hosts", "_resources")

    def __init__(
        self, hosts: Mapping[str, Endpoint], resources: Mapping[tuple[str, str], Endpoint] | None = None
    ) -> None:
        """`resources` has every resource, by the names of its project and of itself."""
        self._hosts = hosts
        self._resources = resources or {}

    @classmethod
    def build(
        cls,
        project: Project,
        versions: Mapping[str, Version],
        *,
        domain: str,
        front: bool = True,
        domains: Collection[str] | None = None,
    ) -> "RouteTable":
        """Build the table of a project; `versions` maps each resource name to its version.

        Each public resource gets the host `<resource>--<project>.<domain>`, and the front
        `<project>.<domain>`. With `front`, that also gets the bare domain, or all of `LOCAL_HOSTS` if the
        domain is `localhost`. Of the custom domains of a resource, those in `domains` are served: the first
        is canonical, others redirect to it. `None` serves all of them without redirects.
        """
        endpoints: dict[str, Endpoint] = {}
        for name, resource in project.resources.items():
            endpoints[name] = Endpoint(project, resource, versions[name], endpoints)
        hosts = {
            f"{host_label(project.name, name)}.{domain}": endpoint
            for name, endpoint in endpoints.items()
            if endpoint.public
        }
        if project.front is not None:
            names = {f"{host_label(project.name)}.{domain}"}
            if front:
                names |= LOCAL_HOSTS if domain == "localhost" else {domain}
            hosts |= dict.fromkeys(names, endpoints[project.front.name])
        for name, endpoint in endpoints.items():
            resource = project.resources[name]
            served = [each for each in resource.domains if domains is None or each in domains]
            others = endpoint
            if domains is not None and len(served) > 1:
                others = Endpoint(project, resource, versions[name], endpoints, served[0])
            own = {each: endpoint if each == served[0] else others for each in served}
            # The domain of the service can have changed since a name was proven.
            hosts |= {each: target for each, target in own.items() if not below(each, domain)}
        return cls(hosts, {(project.name, name): endpoint for name, endpoint in endpoints.items()})

    @classmethod
    def merge(cls, tables: Iterable["RouteTable"]) -> "RouteTable":
        """Return one table with the hosts of all given tables."""
        hosts, resources = dict[str, Endpoint](), dict[tuple[str, str], Endpoint]()
        for table in tables:
            hosts |= table._hosts
            resources |= table._resources
        return cls(hosts, resources)

    @property
    def hosts(self) -> Collection[str]:
        return self._hosts.keys()

    def resource(self, project: str, name: str) -> Endpoint | None:
        """Return a resource, public or not, or `None`."""
        return self._resources.get((project, name))

    def match_host(self, authority: str) -> Endpoint | None:
        """Return the public resource for a `Host` header (`host[:port]`), or `None`.

        The result is `None` for an unknown host and for a private resource: clients must not find out which.
        """
        return self._hosts.get(authority) or self._hosts.get(host_name(authority))


def internal_request(
    project: str, resource: str, target: str, id_: str, fields: Mapping[str, str]
) -> Request:
    """Return a POST of svc itself to a resource, with an id. Requests of clients to its host get a 404."""
    path, _, query = target.partition("?")
    fields = {"host": f"{host_label(project, resource)}.{DOMAIN}", "x-svc-run-id": id_, **fields}
    return Request(
        method="POST",
        scheme="http",
        path=path,
        query=query.encode(),
        headers=[(name.encode(), value.encode()) for name, value in fields.items()],
        id=id_,
        resource=(project, resource),
    )


def internal_resource(authority: str) -> tuple[str, str] | None:
    """Return the project and the resource of the host of an `internal_request`, `None` for another host."""
    match = _INTERNAL.fullmatch(authority)
    return (match[2], match[1]) if match else None


def host_name(authority: str) -> str:
    """Return the lower-case host of `host[:port]` without brackets and final dot; empty if it is invalid."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None or int(match["port"] or 0) > _LAST_PORT:
        return ""
    host = match["address"] or match["name"]
    return "" if ".." in f".{host}" else host.lower().removesuffix(".")
