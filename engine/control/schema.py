"""The form of what the control API takes and sends: exact members of exact types."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A JSON object with these members and no other; no value is taken for one of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)
