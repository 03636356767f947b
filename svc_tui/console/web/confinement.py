"""Confinement of a Console that runs at a service for a user of another machine.

Such a Console is a client of the control API. It may read the files of Python and svc, use files in its own
folder, and connect to that API. An audit hook refuses all else, whatever an action of the Console tries.
"""

import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from screens.dialog import MAX_DOWNLOAD_BYTES

MAX_MEMORY_BYTES = 1 << 30
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_GUARDED = frozenset(
    {"os", "subprocess", "shutil", "pty", "socket", "sqlite3", "webbrowser", "ctypes", "fcntl", "glob"}
)
"""Modules whose events are refused, unless they are listed below."""
_OF_FOLDER = frozenset({"os.chmod", "os.remove", "os.rename", "os.listdir", "os.scandir"})
"""Events that are permitted for paths in the folder."""
_OF_CODE = frozenset({"os.listdir", "os.scandir"})
_HARMLESS = frozenset(
    {"os.putenv", "os.unsetenv", "socket.__new__", "socket.getaddrinfo", "socket.gethostname", "fcntl.fcntl"}
)
_LIMITS: Mapping[int, int] = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_FSIZE: MAX_DOWNLOAD_BYTES,
    resource.RLIMIT_AS: MAX_MEMORY_BYTES,
}


def confine(folder: Path, api: str) -> None:
    """Refuse this process programs, files outside of `folder`, and addresses other than the API's.

    Such actions raise `PermissionError`.
    """
    with suppress(OSError):  # On Linux, a page ends before the service when memory runs out.
        Path("/proc/self/oom_score_adj").write_text("1000")
    for limit, most in _LIMITS.items():
        resource.setrlimit(limit, (most, most))
    own = (f"{os.path.realpath(folder)}/",)
    code = tuple(f"{os.path.realpath(path)}/" for path in {*sys.path, sys.prefix, sys.base_prefix} if path)
    url = urlsplit(api)
    address = (url.hostname, url.port)

    def within(value: Any, folders: tuple[str, ...]) -> bool:
        return isinstance(value, int) or f"{os.path.realpath(value)}/".startswith(folders)

    def permitted(event: str, values: tuple[Any, ...]) -> bool:
        if event == "open":
            return within(values[0], own if values[2] & _WRITES else (*own, *code))
        if event == "socket.connect":
            return tuple(values[1][:2]) == address
        if event in _OF_FOLDER:
            paths = [value for value in values if isinstance(value, str | bytes | os.PathLike)]
            return all(within(path, (*own, *code) if event in _OF_CODE else own) for path in paths)
        return event.partition(".")[0] not in _GUARDED or event in _HARMLESS

    def check(event: str, values: tuple[Any, ...]) -> None:
        if not permitted(event, values):
            raise PermissionError(1, "a Console at a service cannot use its machine")

    sys.addaudithook(check)
