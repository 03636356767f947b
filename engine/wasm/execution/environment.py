"""Encoding of environment variables for guests."""

from collections.abc import Mapping


def encode_environment(variables: Mapping[str, str]) -> bytes:
    """Return names and values, each with a zero byte at its end. Zero bytes in values are left out."""
    parts = [part.replace("\0", "") for item in variables.items() for part in item]
    return "\0".join([*parts, ""]).encode() if parts else b""
