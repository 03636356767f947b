"""Where the control API of a Project's running `svc dev` is: a file in the Project's `.svc` folder.

Owns that file. Only the user may read it, because it has the token. It may be left over from a process that
was killed, so who reads it has to see whether anybody answers.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.files.data_dir import ensure_data_dir

ENDPOINT_FILE = "control.json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A control API that was reachable when this was written."""

    url: str
    token: str
    pid: int


def publish_endpoint(folder: Path, presence: Endpoint) -> None:
    """Write where the API is; the newest of several processes is the one that is found."""
    try:
        write_atomic(ensure_data_dir(folder) / ENDPOINT_FILE, json.dumps(asdict(presence)).encode())
    except OSError as error:
        raise SvcError(
            f"{folder / ENDPOINT_FILE} can not be written: {error.strerror}",
            "Check that the Project's folder can be written and that its disk has room.",
        ) from error


def find_endpoint(folder: Path) -> Endpoint | None:
    """Return what was announced last, if it can be read."""
    try:
        return Endpoint(**json.loads((folder / ENDPOINT_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def remove_endpoint(folder: Path, presence: Endpoint) -> None:
    """Remove what was announced, unless another process announced itself since."""
    if find_endpoint(folder) == presence:
        with contextlib.suppress(OSError):
            (folder / ENDPOINT_FILE).unlink()
