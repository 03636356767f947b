"""Whose timeline and usage a command shows: of `svc dev` in this folder, or of the service.

Owns the choice where nobody made it: what runs in front of one goes before what is deployed.
"""

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
        help="What is deployed, or what svc dev served; unless said, what runs in front of you.",
    ),
]
"""The user's word."""


def resolve_target(root: Path, wanted: bool | None) -> Credentials | None:
    """Return the service to ask, and say that it is asked; `None` for what `svc dev` recorded.

    `wanted` is the user's word; without it: the service that the Project belongs to, unless `svc dev` runs.
    Raises `NotLoggedIn`.
    """
    if wanted is None:
        presence = find_endpoint(root / DATA_DIR)
        runs = presence is not None and _alive(presence.pid)
        wanted = not runs and (root / DATA_DIR / PROJECT_FILE).exists()
    if not wanted:
        return None
    login = CredentialStore.from_environment(os.environ).get(root)
    stderr.note(f"of what is deployed at {login.key}; --dev shows what svc dev served")
    return login


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
