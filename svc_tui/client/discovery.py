"""Control APIs on this machine that announced themselves in a folder."""

from pathlib import Path

from engine.control.discovery import find_endpoint
from engine.errors import SvcError
from svc_tui.client import Client


def find_running(folder: Path, path: str) -> Client | None:
    """Return a client of the control API that announced itself in a folder, if it answers at a path."""
    presence = find_endpoint(folder)
    if presence is None:
        return None
    client = Client(presence.url, presence.token)
    try:
        client.call("GET", path)
    except SvcError:
        client.close()
        return None
    return client
