"""Entry point of the Console process behind one web page.

The only argument is a JSON document: `project`, `address`, and for a project in development its `folder`. A
Console at a service gets the URL of the control API and a token in the environment instead of a login.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from svc_tui.client.credentials import Credentials
from svc_tui.console import app
from svc_tui.console.deployer import ConsoleDeployer, deployer_for_folder
from svc_tui.console.engine import EngineConnection, RunningDevServer, ServiceProject, connect_service
from svc_tui.console.preferences import read_keymap
from svc_tui.console.start import LoginActions
from svc_tui.console.web.confinement import confine
from svc_tui.user_home import Home


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
