"""The optional packages of the extra `otlp`."""

from importlib.util import find_spec

from engine.errors import SvcError

INSTALL = "Install it: pip install 'svc-tui[otlp]'"
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
"""Modules of the packages."""


class OtlpNotInstalled(SvcError):
    """The optional packages of the extra `otlp` are missing."""

    code = "otlp-not-installed"

    def __init__(self) -> None:
        super().__init__("the package opentelemetry-exporter-otlp-proto-http is not installed", INSTALL)


def require_otlp() -> None:
    """Raise `OtlpNotInstalled` if a package is missing."""
    try:
        missing = None in map(find_spec, PACKAGES)
    except ModuleNotFoundError:  # A parent package is missing.
        missing = True
    if missing:
        raise OtlpNotInstalled
