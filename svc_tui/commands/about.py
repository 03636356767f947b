"""`svc version` and `svc schema`."""

import platform

from svc_tui import version as installed_version
from svc_tui.terminal import stdout
from svc_tui.terminal.stdout import Answer


def version() -> Answer:
    """Print the version of svc."""
    version, system = installed_version(), f"{platform.system()} {platform.machine()}"
    document = {"version": version, "python": platform.python_version(), "platform": system}
    return Answer(document, [f"svc {version}"])


def schema() -> None:
    """Print the JSON Schema of svc.toml, for editors."""
    from engine.manifest.schema import json_schema_text  # not for `svc version`

    stdout.line(json_schema_text().rstrip("\n"))
