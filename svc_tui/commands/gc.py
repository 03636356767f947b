"""`svc gc`."""

from typing import Annotated

import typer

from svc_tui.client.credentials import current_client
from svc_tui.commands.options import AsJson
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.units import size


def gc(
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would be removed, without removing it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove data that no deployment needs from the service."""
    with current_client() as client:
        report = client.call("POST", "/v1/gc", {"plan": plan})
    if as_json:
        stdout.data(report)
    elif any(report[key] for key in ("blobs", "uploads", "unpacked", "machine_code")):
        action = "would be removed" if plan else "removed"
        stdout.line(f"blobs              {report['blobs']} {action}, {size(report['bytes'])}")
        stdout.line(f"unpacked packages  {report['unpacked']} {action}")
        stdout.line(f"machine code       {report['machine_code']} {action}")
        stdout.line(f"abandoned uploads  {report['uploads']} {action}")
    else:
        stderr.note("nothing to remove; data younger than a day is always retained")
