"""The URL of an OpenTelemetry collector: `--otlp` of a service, and `otlp` of a project."""

import re
from dataclasses import dataclass, field

from engine.manifest.egress import Origin, parse_authority

MAX_URL_CHARS = 2048
_PATH = re.compile(r"(/[!-~]*)?")


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector that accepts OTLP/HTTP. `path` is empty, or a prefix without `/` at its end."""

    origin: Origin
    path: str = ""

    def url(self, signal: str) -> str:
        """Return the URL of a signal: `logs`, `traces` or `metrics`."""
        return f"{self}/v1/{signal}"

    def __str__(self) -> str:
        return f"{self.origin}{self.path}"


@dataclass(frozen=True, slots=True)
class ProjectCollector:
    """The collector that a project names: its URL, and headers with the values of secrets."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def parse_collector(url: str) -> Collector:
    """Return the collector at a URL of scheme, host, port and path. Raises `ValueError` if invalid."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    path = slash + path
    if not separator or len(url) > MAX_URL_CHARS or not _PATH.fullmatch(path) or {"?", "#"} & set(path):
        raise ValueError(url)
    return Collector(parse_authority(scheme, authority), path.rstrip("/"))
