"""What one process serves: the Projects that were published to it, and the routes to all of them.

Owns which Version each Resource has. A Resource that did not change keeps its Version, so that publishing
costs what is new; a table is made first and put in force in one step (`ready`, then `flip`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.artifact import Artifact
from engine.deploy.status import Standing
from engine.deploy.versions import Publication, Versions
from engine.errors import SvcError
from engine.gateway.routes import NotReady, RouteTable, Version
from engine.manifest.model import Project, Resource


@dataclass(frozen=True, slots=True)
class _Made:
    """A Version, and what it was made of."""

    resource: Resource
    artifact: Artifact
    deployment: str
    secrets: tuple[str | None, ...]
    version: Version


@dataclass(frozen=True, slots=True)
class Ready:
    """A publication that can go live: its Project, the Project's own routes, and what they lead to.

    `unmade` has the Resources that answer that they are not ready, and why.
    """

    project: Project
    own: RouteTable
    made: Mapping[str, _Made]
    unmade: Mapping[str, SvcError | None]


class Site:
    """The Projects of a process. Use on one event loop."""

    def __init__(self, versions: Versions, domain: str, *, front: bool) -> None:
        """With `front`, a Project's front answers at the bare domain: there is one Project only."""
        self._versions = versions
        self._domain = domain
        self._front = front
        self._live: dict[str, Ready] = {}
        self.routes = RouteTable({})

    async def ready(self, publication: Publication, *, lenient: bool = False) -> Ready:
        """Make what serves a publication, without serving it.

        `lenient` has a Resource that can not run answer that it is not ready; else its `SvcError` is raised.
        """
        made: dict[str, _Made] = {}
        versions: dict[str, Version] = {}
        for name, resource in publication.project.resources.items():
            part = publication.parts.get(name)
            if part is None or isinstance(part, SvcError):
                versions[name] = NotReady(name, part)
                continue
            try:
                made[name] = await self._make(publication, resource, part)
                versions[name] = made[name].version
            except SvcError as error:
                if not lenient:
                    raise
                versions[name] = NotReady(name, error)
        table = RouteTable.build(publication.project, versions, domain=self._domain, front=self._front)
        unmade = {name: each.error for name, each in versions.items() if isinstance(each, NotReady)}
        return Ready(publication.project, table, made, unmade)

    async def _make(self, publication: Publication, resource: Resource, artifact: Artifact) -> _Made:
        live = self._live.get(publication.project.name)
        secrets = tuple(publication.secrets.get(name) for name in resource.secrets)
        known = live.made.get(resource.name) if live is not None else None
        if known is not None and (known.resource, known.artifact, known.deployment, known.secrets) == (
            *(resource, artifact),
            *(publication.deployment, secrets),
        ):
            return known
        version = await self._versions.make(publication, resource, artifact)
        return _Made(resource, artifact, publication.deployment, secrets, version)

    def flip(self, ready: Ready, *, alone: bool = False) -> None:
        """Serve this from the next request on; `alone` ends every other Project."""
        self._live = ({} if alone else self._live) | {ready.project.name: ready}
        self.routes = RouteTable.join(each.own for each in self._live.values())

    def project(self, name: str) -> Project | None:
        """Return a Project as it is served."""
        live = self._live.get(name)
        return live.project if live is not None else None

    def standing(self, project: str, name: str) -> Standing:
        """Return how a Resource of a Project stands; one that is not served waits."""
        live = self._live.get(project)
        if live is None or (name not in live.made and name not in live.unmade):
            return Standing("waiting", None, serves=False)
        if name in live.made:
            return Standing("ready", None, serves=True)
        error = live.unmade[name]
        return Standing("failed" if error is not None else "waiting", error, serves=False)

    def remove(self, project: str) -> None:
        """Serve a Project no longer."""
        self._live = {name: ready for name, ready in self._live.items() if name != project}
        self.routes = RouteTable.join(each.own for each in self._live.values())
