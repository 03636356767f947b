"""How many examples hypothesis generates where its own number does not fit."""

from hypothesis import settings

USUAL = 100
"""Hypothesis's own number, which profiles change."""
FUZZ = "fuzz"
"""The profile of `make fuzz`."""


def examples(number: int) -> int:
    """Return how many to generate when `number` is right for `make test`; `make check` takes fewer."""
    return max(1, number * settings().max_examples // USUAL)


def is_fuzzing() -> bool:
    """Return whether this is a run of `make fuzz`, whose examples differ in each round."""
    return settings.get_current_profile_name() == FUZZ
