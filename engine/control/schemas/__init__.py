"""Request and response models of the control API, and their base classes."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

from pydantic import BaseModel, ConfigDict

from engine.manifest.model import Project


class StrictModel(BaseModel):
    """A JSON object with exactly these members. Values are not converted between types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def from_value(cls, value: object, **members: object) -> Self:
        """Return the model of a value: its attributes of the same names, and other members.

        A time such as `created` comes from `created_ns`: in ISO 8601 to the second, `None` for 0.
        """
        for name in cls.model_fields.keys() - members.keys():
            if (time_ns := getattr(value, f"{name}_ns", None)) is None:
                members[name] = getattr(value, name)
            else:
                time = datetime.fromtimestamp(time_ns // 10**9, UTC)
                members[name] = time.strftime("%Y-%m-%dT%H:%M:%SZ") if time_ns else None
        return cls.model_validate(members, strict=False, from_attributes=True)


class QueryModel(BaseModel):
    """Query parameters. Unknown parameters are rejected; values are parsed from strings."""

    model_config = ConfigDict(extra="forbid")


class AddressOut(StrictModel):
    """A resource's URL if it is public, and the mounts that lead to it."""

    resource: str
    lane: str
    url: str | None
    mounted: list[str]

    @classmethod
    def of(cls, project: Project, url_of: Callable[[str, str], str]) -> "list[AddressOut]":
        """Return the addresses of a project's resources."""
        mounts = [
            (mount.target, f"{name}:{mount.pattern}")
            for name, each in project.resources.items()
            for mount in each.mounts
        ]
        mounts += [(each.fallback, f"{name} as fallback") for name, each in project.resources.items()]
        return [
            cls(
                resource=name,
                lane=resource.lane,
                url=url_of(project.name, name) if resource.public else None,
                mounted=[mount for target, mount in mounts if target == name],
            )
            for name, resource in project.resources.items()
        ]
