"""Request and response models of the control API, and their base classes."""

from datetime import UTC, datetime
from typing import Self

from pydantic import BaseModel, ConfigDict


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
