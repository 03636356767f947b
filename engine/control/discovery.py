"""Discovery file (`.svc/control.json`) with the URL and token of a running control API.

Only the user can read the file, because it has the token. A killed process leaves a stale file, so a client
must check that the URL responds.
"""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.files.data_dir import ensure_data_dir

ENDPOINT_FILE = "control.json"


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """The URL and token of a control API, and the process that serves it.

    One `of_command` ends with a command, so others do not use it.
    """

    url: str
    token: str
    pid: int
    of_command: bool = False

    @property
    def is_running(self) -> bool:
        """True unless the process has ended."""
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except (OSError, OverflowError, TypeError):  # no such process; the last two: an invalid file
            return False
        return True


def publish_endpoint(folder: Path, endpoint: ControlEndpoint) -> None:
    """Write the discovery file. With several processes, the last one wins. Raises `SvcError`."""
    try:
        write_atomic(ensure_data_dir(folder) / ENDPOINT_FILE, json.dumps(asdict(endpoint)).encode())
    except OSError as error:
        hint = "Check that the folder is writable and its disk has space."
        raise SvcError(f"cannot write {folder / ENDPOINT_FILE}: {error.strerror}", hint) from error


def find_endpoint(folder: Path) -> ControlEndpoint | None:
    """Return the published endpoint, or `None` if there is no readable file."""
    try:
        return ControlEndpoint(**json.loads((folder / ENDPOINT_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def remove_endpoint(folder: Path, endpoint: ControlEndpoint) -> None:
    """Remove the discovery file, unless another process has replaced it."""
    if find_endpoint(folder) == endpoint:
        with contextlib.suppress(OSError):
            (folder / ENDPOINT_FILE).unlink()
