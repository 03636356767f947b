"""Request ids and W3C Trace Context (https://www.w3.org/TR/trace-context/, level 1)."""

import os
import re
import time
from dataclasses import dataclass
from functools import lru_cache

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_DIGITS = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def request_id() -> str:
    """Return a new id of 26 characters that sorts by time (48 bits of milliseconds, 80 random bits)."""
    return _encode_timestamp(time.time_ns() // 1_000_000) + os.urandom(16).translate(_DIGITS).decode()


@lru_cache(maxsize=4)
def _encode_timestamp(milliseconds: int) -> str:
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in (40, 30, 20, 10, 0)])


@dataclass(slots=True)
class SpanContext:
    """A span of a trace: `span_id` is its own id, `parent` that of the calling span (or empty)."""

    trace_id: str
    span_id: str
    parent: str
    flags: str

    @classmethod
    def from_header(cls, traceparent: str | None) -> "SpanContext":
        """Continue the caller's trace if its `traceparent` is valid, else start a new one."""
        random = os.urandom(24).hex()
        span, new = random[:16], random[16:]
        match = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent else None
        if match is not None:
            version, trace, parent, flags, rest = match.groups()
            usable = version != "ff" and not (version == "00" and rest)
            if usable and trace.strip("0") and parent.strip("0"):
                return cls(trace, span, parent, flags)
        return cls(new, span, "", "01")

    def child(self) -> "SpanContext":
        return SpanContext(self.trace_id, os.urandom(8).hex(), self.span_id, self.flags)

    @property
    def traceparent(self) -> str:
        """The `traceparent` value for requests that this span sends."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"
