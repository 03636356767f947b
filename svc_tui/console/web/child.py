"""Entry point of the Console process behind one web page, and its confinement.

The only argument is a JSON document: `project`, `address`, and for a project in development its `folder`. A
Console at a service gets the URL of the control API and a token in the environment instead of a login. It is
a client of the control API. It may read the files of Python and svc, use files in its own folder, and
connect to that API. An audit hook refuses all else, whatever an action of the Console tries.
"""

import json
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from screens.dialog import MAX_DOWNLOAD_BYTES
from svc_tui.client.credentials import Credentials
from svc_tui.console import app
from svc_tui.console.deployer import ConsoleDeployer, deployer_for_folder
from svc_tui.console.engine import EngineConnection, RunningDevServer, ServiceProject, connect_service
from svc_tui.console.start import LoginActions, read_keymap
from svc_tui.user_home import Home

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
    """Refuse programs, files outside of `folder`, and addresses other than the API's.

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


def main(arguments: Sequence[str]) -> None:
    """Run the Console with the driver that TEXTUAL_DRIVER names."""
    target = json.loads(arguments[0])
    project = target["project"]
    if token := os.environ.pop("SVC_CONSOLE_TOKEN", ""):
        folder, api = Path.cwd(), os.environ.pop("SVC_CONSOLE_API")
        login = Credentials(target["address"], api, token=token)
        deployer = ConsoleDeployer(project, lambda: login, None)
        confine(folder, api)
        app.run(ServiceProject(login, project), None, {}, deployer, None, downloads=folder)
        return
    home = Home.from_environment(os.environ).root
    keys = read_keymap(home, app.binding_ids())
    if folder := target["folder"]:
        engine: EngineConnection = RunningDevServer(project, Path(folder), target["address"])
        deployer = deployer_for_folder(Path(folder), project, os.environ)
    else:
        login, engine = connect_service(project)
        deployer = ConsoleDeployer(project, lambda: login, None)
    app.run(engine, LoginActions(), keys, deployer, home)


if __name__ == "__main__":
    main(sys.argv[1:])
