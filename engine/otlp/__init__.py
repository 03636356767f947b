"""Sending of records and metrics to OpenTelemetry collectors, by the exporters of the OpenTelemetry SDK."""

from importlib.util import find_spec

from engine.errors import SvcError

PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
"""Modules of the packages."""


def require_otlp() -> None:
    """Raise `SvcError` if a package is missing."""
    try:
        missing = None in map(find_spec, PACKAGES)
    except ModuleNotFoundError:  # A parent package is missing.
        missing = True
    if missing:
        message = "the package opentelemetry-exporter-otlp-proto-http is not installed"
        hint = "Install it: pip install 'svc-tui[otlp]'"
        raise SvcError(message, hint, code="otlp-not-installed")
