"""How a Resource stands, for those who watch it. Owns these words."""

from dataclasses import dataclass
from typing import Literal

from engine.errors import SvcError

State = Literal["waiting", "building", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A Resource `waiting` for its build, being built, ready, or its last build `failed`.

    `error` is what it failed of. `serves` tells whether any version does, such as the last that built.
    `seconds` is what the last build took, `None` where none is known.
    """

    state: State
    error: SvcError | None
    serves: bool
    seconds: float | None = None
