"""Rules of static resources by path: redirects and response fields, and what makes them invalid."""

import re
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar
from urllib.parse import quote

from engine.manifest.egress import parse_authority
from engine.manifest.model import REDIRECT_STATUSES, Redirect, normal_path

Problem = tuple[str, str]
"""Message and hint."""
Value = TypeVar("Value")

ENDLESS_HINT = "Redirect to a path that no other redirect matches."
MAX_STEPS = 20
"""Redirects that browsers follow for one request."""
MAX_SEGMENTS = 32
"""Segments of a pattern: a lookup takes a step for each."""
MAX_TARGET_CHARS = 2048
MAX_FIELD_CHARS = 4096
_STEPS_SHOWN = 4
_PATH = re.compile(r"/(?:[A-Za-z0-9\-._~!$&'()+,;=:@/]|%[0-9A-Fa-f]{2})*")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_URL = re.compile(r"""[!-~]+""")
_NOT_IN_URL = frozenset('\\"<>^`{|}')
_CARRIED = "/%!$&'()*+,;=:@~"
_FIELD_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,256}")
_FIELD_VALUE = re.compile(r"[!-~]([\t -~]*[!-~])?")
_OWN_FIELDS = frozenset(
    {"accept-ranges", "basic-auth", "connection", "content-encoding", "content-length", "content-range"}
    | {"date", "etag", "keep-alive", "trailer", "transfer-encoding", "upgrade", "vary", "x-request-id"}
)
"""Fields of responses that svc sets. `basic-auth` is a password in the files of another host."""


class PathRules(Generic[Value]):
    """Values by path pattern: an exact path, or `/prefix/*`. The time of a lookup is that of its matches."""

    def __init__(self, rules: Mapping[str, Value]) -> None:
        self._exact: dict[str, Value] = {}
        self._below: dict[str, Value] = {}
        for pattern, value in rules.items():
            if pattern.endswith("/*"):
                self._below[normal_path(pattern[:-2])] = value
            else:
                self._exact[normal_path(pattern)] = value
        self._depth = max((prefix.count("/") + 1 for prefix in self._below), default=0)

    def matching(self, path: str) -> Iterator[tuple[Value, str]]:
        """Yield the values for a URL path, exact before longest pattern, each with the text for its `*`."""
        normal = normal_path(path)
        if normal in self._exact:
            yield self._exact[normal], ""
        sent, segments = path.split("/"), normal.split("/")
        for depth in range(min(self._depth, len(segments)), 0, -1):
            prefix = "/".join(segments[:depth])
            if prefix in self._below:
                yield self._below[prefix], "/".join(sent[depth:])


def location(redirect: Redirect, rest: str) -> str:
    """Return the URL that a redirect leads to, with `rest` of the path for its `*`.

    Browsers read `//` and a backslash at the start of a path as another host, so neither is carried over.
    """
    target = redirect.to.replace("*", quote(rest, safe=_CARRIED, encoding="latin-1"))
    return re.sub("^/{2,}", "/", target)


def pattern_problem(pattern: str) -> tuple[str, str] | None:
    """Return message and hint for an invalid path pattern, `None` for a valid one."""
    path = pattern[:-1] if pattern.endswith("/*") else pattern
    if not pattern.startswith("/"):
        return f'the path "{pattern}" does not start with /', f'Write "/{pattern}".'
    if "*" in path or "?" in path or "#" in path:
        reason = "* may only be the last segment" if "*" in path else "a pattern has no ? and no #"
        return f'"{pattern}" is not a path pattern: {reason}', 'Write "/prefix/*" or an exact "/path".'
    if "//" in path or {".", ".."} & set(normal_path(path).split("/")):
        return f'no request has the path "{pattern}"', "Leave out empty, . and .. segments."
    if _PATH.fullmatch(path) is None:
        escaped = quote(_LONE_PERCENT.sub("%25", pattern), safe="/*%!$&'()+,;=:@~", errors="surrogateescape")
        return f'"{pattern}" is not how a path is sent', f'Write it percent-encoded: "{escaped}".'
    return None


def _pattern_problem(pattern: str) -> Problem | None:
    if pattern.count("/") > MAX_SEGMENTS:
        return f"the path has more than {MAX_SEGMENTS} segments", "End it with /* earlier."
    return pattern_problem(pattern)


def redirect_problem(pattern: str, to: str, status: int) -> Problem | None:
    """Return why a redirect is invalid; `None` for a valid one, which still can lead to itself."""
    if (problem := _pattern_problem(pattern)) is not None:
        return problem
    if status not in REDIRECT_STATUSES:
        hint = f"Use one of {', '.join(map(str, REDIRECT_STATUSES))}."
        return f"{status} is not the status of a redirect", hint
    if len(to) > MAX_TARGET_CHARS:
        return f"the target has {len(to)} characters; the maximum is {MAX_TARGET_CHARS}", "Shorten it."
    if not _URL.fullmatch(to) or _NOT_IN_URL & set(to):
        return f'"{to}" is not how a URL is written', "Write it percent-encoded."
    path = to
    if not to.startswith("/") or to.startswith("//"):
        scheme, separator, rest = to.partition("://")
        authority, _, path = rest.partition("/")
        try:
            parse_authority(scheme if separator else "", authority)
        except ValueError:
            return f'"{to}" is neither a path nor a URL', 'Write "/path" or "https://host/path".'
    if "*" in to and not pattern.endswith("/*"):
        return (
            f'"{to}" has a *, and "{pattern}" has none',
            'End the path with "/*", or remove the * of the target.',
        )
    if path.count("*") > 1:
        return f'"{to}" has several *', "Write one: it stands for the rest of the path."
    return None


def endless(redirects: Mapping[str, Redirect]) -> Iterator[tuple[str, str]]:
    """Yield each pattern whose redirect ends in a circle, or after too many steps, with the first steps.

    The `*` of a pattern is followed as if it were a path segment.
    """
    rules = PathRules(redirects)
    for pattern, redirect in redirects.items():
        steps = [pattern, location(redirect, "*")]
        while len(steps) <= MAX_STEPS:
            path = re.split("[?#]", steps[-1], maxsplit=1)[0]
            match = next(rules.matching(path), None)
            if match is None:
                break
            steps.append(location(*match))
        else:
            yield pattern, " → ".join(steps[:_STEPS_SHOWN])


def fields_problem(pattern: str, fields: Mapping[str, str]) -> Iterator[tuple[str, Problem]]:
    """Yield invalid response fields by name; the name is empty for an invalid pattern."""
    if (problem := _pattern_problem(pattern)) is not None:
        yield "", problem
    names: dict[str, str] = {}
    for name, value in fields.items():
        twin = names.setdefault(name.lower(), name)
        if not _FIELD_NAME.fullmatch(name.lower()):
            yield name, (f'"{name}" is not a header name', "Write a name such as cache-control.")
        elif name.lower() in _OWN_FIELDS:
            yield name, (f"the header {name} is set by the platform", "Remove it.")
        elif twin != name:
            yield name, (f"{name} and {twin} are the same header", "Remove one of them.")
        elif not _FIELD_VALUE.fullmatch(value) or len(value) > MAX_FIELD_CHARS:
            hint = f"Write 1 to {MAX_FIELD_CHARS} printable ASCII characters."
            yield name, (f"the value of {name} is not valid in a header", hint)
