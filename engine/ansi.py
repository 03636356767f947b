"""ANSI colors in the output of compilers: SGR sequences (ECMA-48, 8.3.117)."""

import re

SGR = re.compile(r"(\x1b\[[0-9;]*m)")


def strip_ansi(text: str) -> str:
    """Return a text without its SGR sequences."""
    return SGR.sub("", text)
