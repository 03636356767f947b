"""Colours in what compilers print: SGR sequences (ECMA-48, 8.3.117), the only ones that our values have."""

import re

SGR = re.compile(r"(\x1b\[[0-9;]*m)")


def strip_ansi(text: str) -> str:
    """Return a text without its colours, for a face that has none or others."""
    return SGR.sub("", text)
