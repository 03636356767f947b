"""Negotiation of the content coding by `Accept-Encoding` (RFC 9110, 12.5.3)."""

import re
from collections.abc import Mapping
from functools import lru_cache

# `identity` is acceptable even if the header omits it, but ranks behind all codings that it names.
_UNNAMED_IDENTITY = 0.0005
_QVALUE = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_ALIASES = {"x-gzip": "gzip", "x-compress": "compress"}


@lru_cache(maxsize=512)
def qualities(header: bytes) -> Mapping[str, float]:
    """Return the weight (0 to 1) of each coding named in an `Accept-Encoding` value; `*` stands for the rest.

    Members with an invalid weight are omitted.
    """
    weights: dict[str, float] = {}
    for member in header.decode("latin-1").split(","):
        coding, *parameters = (part.strip() for part in member.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "q":
                weight = float(value) if _QVALUE.fullmatch(value := value.strip()) else -1.0
        if coding and weight >= 0:
            coding = coding.lower()
            weights[_ALIASES.get(coding, coding)] = weight
    return weights


def choose(header: bytes | None, sizes: Mapping[str, int]) -> str | None:
    """Return the best of the codings in `sizes` (coding to bytes), or `None` if the client refuses all.

    The highest weight wins, then the smallest size. Without the header (`None`) it is `identity`.
    """
    if header is None or not header.strip():
        return "identity" if "identity" in sizes else None
    weights = qualities(header)
    rest = weights.get("*", 0.0)
    best, best_key = None, (0.0, 0)
    for coding, size in sizes.items():
        weight = weights.get(coding)
        if weight is None:
            weight = _UNNAMED_IDENTITY if coding == "identity" and "*" not in weights else rest
        key = (weight, -size)
        if weight > 0 and (best is None or key > best_key):
            best, best_key = coding, key
    return best
