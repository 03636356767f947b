"""Which Projects there are, for those who may see them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from quart import Blueprint
from quart_schema import validate_response

from engine.control.app import principal
from engine.control.errors import NotFound


class Projects(Protocol):
    """The Projects of an engine, and where each keeps its data."""

    async def names(self) -> Iterable[str]:
        """Return the names of all."""
        ...

    def data_dir(self, project: str) -> Path:
        """Return the folder of a Project's data; each Door has one of its own name in it.

        Raises `NotFound`.
        """
        ...


@dataclass(frozen=True, slots=True)
class SingleProject:
    """The Project in one folder."""

    name: str
    folder: Path

    async def names(self) -> Iterable[str]:
        """Return its name."""
        return (self.name,)

    def data_dir(self, project: str) -> Path:
        """Return its data's folder."""
        if project != self.name:
            raise unknown_project(project)
        return self.folder


@dataclass(frozen=True, slots=True)
class ProjectList:
    """Names of Projects, in their order."""

    projects: list[str]


def unknown_project(project: str) -> NotFound:
    """Return the error for a Project that is not there, or that the caller may not know of."""
    return NotFound(
        f"there is no Project {project} here", "`svc whoami` lists the Projects you have a part in."
    )


def blueprint(projects: Projects) -> Blueprint:
    """Return the routes."""
    routes = Blueprint("projects", __name__)

    @routes.get("/v1/projects")
    @validate_response(ProjectList)
    async def visible() -> ProjectList:
        """List the Projects that the caller has a part in."""
        asking = principal()
        return ProjectList(sorted(name for name in await projects.names() if asking.role(name)))

    return routes
