"""`svc schema`: the JSON Schema of `svc.toml`."""

from engine.manifest.json_schema import text
from svc_tui.terminal import stdout


def schema() -> None:
    """Print the JSON Schema of svc.toml, for editors."""
    stdout.line(text().rstrip("\n"))
