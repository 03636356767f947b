"""Where requests go: host -> Resource, path -> mount.

Owns the RouteTable, an immutable value that is replaced whole, never edited: a request that began on one
table ends on it. What serves is behind two Protocols; nothing here serves.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from engine.errors import SvcError
from engine.http.exchange import Exchange
from engine.manifest.model import Mount, Project, Resource
from engine.wasm.execution.request import GuestRequest, RunReport

_AUTHORITY = re.compile(r"(\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^:@/\[\]]*))(:(?P<port>[0-9]{0,5}))?")
_LAST_PORT = 65535
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})


class DynamicVersion(Protocol):
    """A live version of a dynamic Resource."""

    async def run(self, request: GuestRequest) -> RunReport:
        """Answer one request."""


class StaticVersion(Protocol):
    """A live version of a static Resource."""

    async def respond(self, exchange: Exchange) -> tuple[int, int] | None:
        """Answer one request: return status and body bytes sent, or `None` if no file matches."""


class FirstBuild:
    """Outcome of a Resource's first build, which requests wait for."""

    def __init__(self) -> None:
        self._finished = asyncio.Event()
        self._version: Version | None = None

    def finish(self, version: "Version | None") -> None:
        """Release the waiting requests to a version; `None` if the Resource was removed."""
        self._version = version
        self._finished.set()

    async def wait(self, seconds: float) -> "Version | None":
        """Return the version that replaces the pending one, or `None` after this time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._finished.wait(), seconds)
        return self._version


@dataclass(frozen=True, slots=True)
class NotReady:
    """A Resource without a version: `first_build` is running, or the build failed with `error`."""

    resource: str
    error: SvcError | None
    first_build: FirstBuild | None = None


Version = DynamicVersion | StaticVersion | NotReady


class Endpoint:
    """One Resource with what serves it and where its mounts lead."""

    __slots__ = ("_exact", "_patterns", "name", "project", "public", "recorded", "version")

    def __init__(
        self,
        project: str,
        resource: Resource,
        version: Version,
        recorded: frozenset[str] | None = None,
    ) -> None:
        """`recorded` is the Project's."""
        self.project = project
        self.recorded = recorded
        self.name = resource.name
        self.public = resource.public
        self.version = version
        self._exact: dict[str, Endpoint] = {}
        self._patterns: list[tuple[Mount, Endpoint]] = []

    def link_mounts(self, mounts: tuple[Mount, ...], endpoints: Mapping[str, "Endpoint"]) -> None:
        """Lead each mount to its Endpoint; part of building a table."""
        for mount in mounts:
            target = endpoints[mount.target]
            if mount.exact:
                self._exact[mount.pattern] = target
            else:
                self._patterns.append((mount, target))
        self._patterns.sort(key=lambda item: -len(item[0].prefix))

    def match_mount(self, path: str) -> "Endpoint | None":
        """Return where a path is mounted to: exact beats pattern, longer beats shorter."""
        target = self._exact.get(path)
        if target is None:
            target = next((e for mount, e in self._patterns if mount.matches(path)), None)
        return target


class RouteTable:
    """All routes that are in force at one time."""

    __slots__ = ("_hosts",)

    def __init__(self, hosts: Mapping[str, Endpoint]) -> None:
        self._hosts = hosts

    @classmethod
    def build(
        cls, project: Project, versions: Mapping[str, Version], *, domain: str, front: bool = True
    ) -> "RouteTable":
        """Make the table for a Project; `versions` has an entry for each Resource.

        Resources answer at `<resource>--<project>.<domain>`. With `front`, the front also answers at the bare
        domain, and at this machine's own names when the domain is `localhost`.
        """
        endpoints = {
            name: Endpoint(project.name, resource, versions[name], project.recorded)
            for name, resource in project.resources.items()
        }
        for name, resource in project.resources.items():
            endpoints[name].link_mounts(resource.mounts, endpoints)
        hosts = {f"{name}--{project.name}.{domain}": e for name, e in endpoints.items() if e.public}
        if front and project.front is not None:
            names = LOCAL_HOSTS if domain == "localhost" else {domain}
            hosts |= dict.fromkeys(names, endpoints[project.front.name])
        return cls(hosts)

    @classmethod
    def merge(cls, tables: Iterable["RouteTable"]) -> "RouteTable":
        """Make the table of several Projects."""
        return cls({host: endpoint for table in tables for host, endpoint in table._hosts.items()})

    def match_host(self, authority: str) -> Endpoint | None:
        """Return the public Resource at `host[:port]`, or `None`: unknown and private look the same."""
        return self._hosts.get(authority) or self._hosts.get(host_name(authority))


def host_name(authority: str) -> str:
    """Return the lower-case host of `host[:port]` without brackets and last dot; empty if it is invalid."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return ""
    return (found["address"] or found["name"]).lower().rstrip(".")
