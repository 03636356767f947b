"""The list of projects, filtered by the caller's roles, and what routes of projects share."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from engine.control.app import Routes, principal
from engine.control.errors import NotFound
from engine.control.schemas import StrictModel

_Value = TypeVar("_Value")


class Projects(Protocol):
    """The projects of an engine and their data folders."""

    async def names(self) -> Iterable[str]:
        """Return the names of all projects."""

    def data_dir(self, project: str) -> Path:
        """Return a project's data folder, which has one subfolder per Door. Raises `NotFound`."""


@dataclass(frozen=True, slots=True)
class SingleProject:
    """The project in one folder."""

    name: str
    folder: Path

    async def names(self) -> Iterable[str]:
        return (self.name,)

    def data_dir(self, project: str) -> Path:
        """Return the data folder. Raises `NotFound` for another project."""
        if project != self.name:
            raise unknown_project(project)
        return self.folder


@dataclass(frozen=True, slots=True)
class ProjectList:
    """Project names in alphabetical order."""

    projects: list[str]


class RemovedOut(StrictModel):
    """The name of a removed project."""

    removed: str


def unknown_project(project: str) -> NotFound:
    """Return the error for a project that does not exist or that the caller may not see."""
    hint = "Run `svc whoami` to list the projects that you have a role in."
    return NotFound(f"project {project} not found", hint)


def known(value: _Value | None, project: str) -> _Value:
    """Return a value of a project. Raises `NotFound` without one."""
    if value is None:
        raise unknown_project(project)
    return value


def blueprint(projects: Projects) -> Routes:
    """Return the route."""
    routes = Routes("projects", __name__)

    @routes.get("/v1/projects")
    async def visible() -> ProjectList:
        """List the projects in which the caller has a role."""
        caller = principal()
        return ProjectList(sorted(name for name in await projects.names() if caller.role(name)))

    return routes
