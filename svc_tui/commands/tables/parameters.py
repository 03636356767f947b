"""Query parameters from the command line."""

import base64
import json
import re
from typing import Any

from engine.errors import InvalidUsage

_INTEGERS = range(-(2**63), 2**63)


def parse_parameter(text: str) -> Any:
    """Return a query parameter for the API: a number, boolean, null, text, or a blob as `{"base64": …}`.

    Only numbers in canonical form are numbers: 007 and 1.10 are text. So is JSON text: `"7"` is the text 7.
    """
    if re.fullmatch(r"-?\d{1,19}", text) and str(int(text)) == text and int(text) in _INTEGERS:
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+(?:e[+-]\d+)?|-?\d+e[+-]\d+", text) and repr(float(text)) == text:
        return float(text)
    if text in ("null", "true", "false"):
        return json.loads(text)
    if re.fullmatch(r'".*"', text, re.DOTALL):
        try:
            return json.loads(text)
        except ValueError:
            return text
    if text.startswith("base64:"):
        try:
            base64.b64decode(text[7:], validate=True)
        except ValueError as error:
            hint = "Write base64: and the encoded bytes, such as base64:AQID."
            raise InvalidUsage(f'"{text[:50]}" is not base64', hint) from error
        return {"base64": text[7:]}
    return text
