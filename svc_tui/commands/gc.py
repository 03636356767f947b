"""`svc gc`: has the service remove what no deployment needs."""

import os
from typing import Annotated, Any

import typer

from svc_tui.client.credentials import CredentialStore, current_project, open_client
from svc_tui.deploy.format import size
from svc_tui.terminal import stderr, stdout


def gc(
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be removed, and leave it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Have the service remove what no deployment needs any more."""
    with open_client(CredentialStore.from_environment(os.environ).get(current_project())) as client:
        swept = client.call("POST", "/v1/gc", {"plan": plan})
    if as_json:
        stdout.data(swept)
    elif any(swept[key] for key in ("contents", "uploads", "unpacked")):
        for line in _lines(swept):
            stdout.line(line)
    else:
        stderr.note("there is nothing that no deployment needs; what is new stays for a day")


def _lines(swept: dict[str, Any]) -> list[str]:
    done = "would be removed" if swept["plan"] else "removed"
    return [
        f"contents           {swept['contents']} {done}, {size(swept['bytes'])}",
        f"unpacked packages  {swept['unpacked']} {done}",
        f"uploads given up   {swept['uploads']} {done}",
    ]
