"""The source of logs and usage: `svc dev` in this folder, or the service."""

import os
from pathlib import Path
from typing import Annotated

import typer

from engine.control.discovery import find_endpoint
from engine.files.data_dir import DATA_DIR
from svc_tui.client.credentials import PROJECT_FILE, Credentials, CredentialStore
from svc_tui.terminal import stderr

ServiceOption = Annotated[
    bool | None,
    typer.Option(
        "--service/--dev",
        help="Read from the service or from svc dev (default: a running svc dev, else the service).",
    ),
]


def resolve_target(root: Path, service: bool | None) -> Credentials | None:
    """Return the credentials of the service to query, or None to read what `svc dev` recorded.

    `service` is the choice of the user. The default is the service of the project, unless `svc dev`
    is running. Raises `NotLoggedIn`.
    """
    if service is None:
        presence = find_endpoint(root / DATA_DIR)
        running = presence is not None and _is_running(presence.pid)
        service = not running and (root / DATA_DIR / PROJECT_FILE).exists()
    if not service:
        return None
    credentials = CredentialStore.from_environment(os.environ).get(root)
    stderr.note(f"from the service {credentials.key}; pass --dev for records of svc dev")
    return credentials


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
