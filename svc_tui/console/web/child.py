"""The program of the Console that a browser shows: attached beside the engine that somebody else runs.

Its only argument is a document: `project`, and the `folder` and `address` of a Project in development.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from svc_tui.console import app, connect
from svc_tui.console.deployer import ConsoleDeployer, deployer_for_folder
from svc_tui.console.engine import EngineConnection, RunningDevServer
from svc_tui.console.preferences import read_keymap
from svc_tui.console.start import LoginActions
from svc_tui.user_home import Home


def main(arguments: Sequence[str]) -> None:
    """Show the Console to whom the driver in TEXTUAL_DRIVER speaks with."""
    wanted = json.loads(arguments[0])
    project = wanted["project"]
    home = Home.from_environment(os.environ).root
    keys = read_keymap(home, app.binding_ids())
    if folder := wanted["folder"]:
        attachment: EngineConnection = RunningDevServer(project, Path(folder), wanted["address"])
        desk = deployer_for_folder(Path(folder), project, os.environ)
    else:
        login, attachment = connect.connect_service(project)
        desk = ConsoleDeployer(project, lambda: login, None)
    app.run(attachment, LoginActions(), keys, desk, home)


if __name__ == "__main__":
    main(sys.argv[1:])
