"""Options of `svc logs` and `svc usage`: ages such as `10m`, and the choice of the source."""

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from engine.control.discovery import find_endpoint
from engine.errors import InvalidUsage
from engine.files.data_dir import DATA_DIR
from svc_tui.client.credentials import PROJECT_FILE, Credentials, CredentialStore
from svc_tui.terminal import stderr

AGE_EXAMPLES = "30s, 10m, 12h, 7d"
MAX_SECONDS = 50 * 365 * 24 * 3600
"""Longer ages are cut to this: no timestamp before 1970 is recorded."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_AGE = re.compile(r"([1-9]\d{0,8})([smhd])", re.ASCII)
ServiceOption = Annotated[
    bool | None,
    typer.Option(
        "--service/--dev",
        help="Read from the service or from svc dev (default: a running svc dev, else the service).",
    ),
]


def parse_age(text: str) -> int:
    """Return an age in seconds, at most `MAX_SECONDS`. Raises `SvcError` for an invalid one."""
    match = _AGE.fullmatch(text)
    if match is None:
        hint = f"Use seconds, minutes, hours or days: {AGE_EXAMPLES}."
        raise InvalidUsage(f'"{text}" is not a valid time', hint)
    return min(int(match[1]) * _SECONDS[match[2]], MAX_SECONDS)


def resolve_target(root: Path, service: bool | None) -> Credentials | None:
    """Return the credentials of the service to query, or None to read what `svc dev` recorded.

    `service` is the choice of the user. The default is the service of the project, unless `svc dev`
    is running. Raises `NotLoggedIn`.
    """
    if service is None:
        endpoint = find_endpoint(root / DATA_DIR)
        running = endpoint is not None and endpoint.is_running
        service = not running and (root / DATA_DIR / PROJECT_FILE).exists()
    if not service:
        return None
    credentials = CredentialStore.from_environment(os.environ).get(root)
    stderr.note(f"from the service {credentials.key}; pass --dev for records of svc dev")
    return credentials
