"""How many examples hypothesis makes up where its own number does not fit."""

from hypothesis import settings

USUAL = 100
"""Hypothesis's own number, which profiles change."""


def examples(number: int) -> int:
    """Return how many to make up when `number` is right for the whole run; `make check` takes fewer."""
    return max(1, number * settings().max_examples // USUAL)
