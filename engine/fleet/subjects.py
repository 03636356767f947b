"""NATS subjects for bucket keys.

Parts between slashes become tokens. A byte outside `[A-Za-z0-9_-]` becomes `=XX`, an empty part `=`. A key of
512 characters makes a subject of at most 6 KiB, more than the default `max_control_line` of nats-server.
"""

import re

_ESCAPED = re.compile(rb"=([0-9A-F]{2})")
_NOT_PLAIN = re.compile(rb"[^A-Za-z0-9_-]")


def token(part: str) -> str:
    """Return a part of a key as one token."""
    return _NOT_PLAIN.sub(lambda match: b"=%02X" % match[0][0], part.encode()).decode() or "="


def _part(token: str) -> str:
    if token == "=":
        return ""
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), token.encode()).decode()


def subject_of(key: str) -> str:
    """Return the subject of a key."""
    return ".".join(map(token, key.split("/")))


def key_of(subject: str) -> str:
    """Return the key of a subject."""
    return "/".join(map(_part, subject.split(".")))


def filter_of(prefix: str) -> str:
    """Return the narrowest subject filter that matches every key with this prefix."""
    return ".".join([*map(token, prefix.split("/")[:-1]), ">"])
