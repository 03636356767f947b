"""OTLP's AnyValue as plain Python, and its text.

Owns how every kind of value is written: a timeline has texts only.
"""

import base64
import json
import math
from collections.abc import Mapping

Value = str | bool | int | float | bytes | list["Value"] | Mapping[str, "Value"] | None
"""An AnyValue: its seven kinds, and None for one that is empty."""


def text_of(value: Value) -> str:
    """Return a value as text: bytes in base64, arrays and maps as JSON, an empty value as nothing."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _number(value: float) -> str:
    """Return a double as JavaScript and JSON write it: 1e3 is 1000, and the three that JSON lacks by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return repr(value)


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not an AnyValue")
