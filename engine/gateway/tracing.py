"""Names for requests and spans.

Owns request ids and W3C Trace Context (https://www.w3.org/TR/trace-context/, level 1).
"""

import os
import re
import time
from dataclasses import dataclass
from functools import lru_cache

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGITS = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def request_id() -> str:
    """Return a new id of 26 characters that sorts by time (48 bits of milliseconds, 80 random bits)."""
    return _moment(time.time_ns() // 1_000_000) + os.urandom(16).translate(_DIGITS).decode()


@lru_cache(maxsize=4)
def _moment(milliseconds: int) -> str:
    return "".join(_ALPHABET[milliseconds >> shift & 31] for shift in range(45, -1, -5))


@dataclass(frozen=True, slots=True)
class Trace:
    """A place in a trace: `span_id` is the span in hand, `parent` the one that called it (or empty)."""

    trace_id: str
    span_id: str
    parent: str
    flags: str

    @classmethod
    def begin(cls, traceparent: str | None) -> "Trace":
        """Go on with the caller's trace where its `traceparent` is valid, else begin one."""
        random = os.urandom(24).hex()
        span, own = random[:16], random[16:]
        match = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent else None
        if match is not None:
            version, trace, parent, flags, rest = match.groups()
            known = version != "ff" and not (version == "00" and rest)
            if known and trace.strip("0") and parent.strip("0"):
                return cls(trace, span, parent, flags)
        return cls(own, span, "", "01")

    def child(self) -> "Trace":
        """Return a new span below this one."""
        return Trace(self.trace_id, os.urandom(8).hex(), self.span_id, self.flags)

    @property
    def traceparent(self) -> str:
        """Return the header value to hand on."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"
