"""Request and response models of the control API, and their base classes."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A JSON object with exactly these members. Values are not converted between types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class QueryModel(BaseModel):
    """Query parameters. Unknown parameters are rejected; values are parsed from strings."""

    model_config = ConfigDict(extra="forbid")
