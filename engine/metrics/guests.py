"""The metrics that guests send, as families of the service's metrics, and their names in Prometheus."""

import re
from collections.abc import Iterable, Mapping, Sequence

from engine.measurement import Measurement, Series
from engine.metrics.families import Distribution, Family, Kind, Labels

RESERVED = ("project", "resource", "le")
"""Labels of svc. Attributes of these names get the prefix `attribute_`."""
_KINDS: Mapping[str, Kind] = {
    "counter": "counter",
    "updown": "updown",
    "gauge": "gauge",
    "histogram": "histogram",
}
_KNOWN_UNITS = {"s": "s", "By": "By"}
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")


def guest_families(projects: Mapping[str, Iterable[Series]]) -> list[Family]:
    """Return the series of projects as families, with the names that the guests chose."""
    points: dict[tuple[str, Kind, str], list[tuple[Labels, float | Distribution]]] = {}
    helps: dict[tuple[str, Kind, str], str] = {}
    for project, each in projects.items():
        for series in each:
            last = series.last
            key = (last.name, _KINDS[last.kind], last.unit)
            helps.setdefault(key, last.description)
            points.setdefault(key, []).append((_labels(project, series.resource, last), _value(series)))
    return [
        Family(name, kind, unit, helps[name, kind, unit], values)
        for (name, kind, unit), values in points.items()
    ]


def prometheus(families: Sequence[Family]) -> list[Family]:
    """Return families with names and labels that Prometheus accepts. Each name is unique."""
    used: set[str] = set()
    renamed = []
    for family in families:
        unit = _KNOWN_UNITS.get(family.unit, "")
        base = name = _valid(family.name.removesuffix("_total"))
        number = 1
        while name in used:
            number += 1
            name = f"{base}_{number}"
        used.add(name)
        values = {tuple(sorted(_valid_labels(labels).items())): value for labels, value in family.points}
        points = [(dict(labels), value) for labels, value in values.items()]
        renamed.append(Family(name, family.kind, unit, family.help, points))
    return renamed


def _labels(project: str, resource: str, measurement: Measurement) -> Labels:
    attributes = {
        f"attribute_{key}" if key in RESERVED else key: text for key, text in measurement.attributes
    }
    return {**attributes, "project": project, "resource": resource}


def _value(series: Series) -> float | Distribution:
    if series.last.kind != "histogram":
        return series.value
    return Distribution(series.last.bounds, series.counts, series.value)


def _valid_labels(labels: Labels) -> dict[str, str]:
    """Return labels with valid names. Those that become equal are joined, as OpenTelemetry specifies."""
    valid: dict[str, str] = {}
    for key, text in labels.items():
        name = _valid(key)
        valid[name] = f"{valid[name]};{text}" if name in valid else text
    return valid


def _valid(name: str) -> str:
    """Return a name of letters, digits and `_`, that does not begin with a digit or `__`."""
    text = re.sub("_+", "_", _NO_NAME.sub("_", name)) or "_"
    return f"_{text}" if text[0].isdigit() else text
