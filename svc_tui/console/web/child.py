"""The program of the Console that a browser shows: attached beside the engine that somebody else runs.

Its only argument is a document: `project`, and the `folder` and `address` of a Project in development.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from svc_tui.console import app, connect, keymap
from svc_tui.console.deployer import DeployDesk, of_folder
from svc_tui.console.engine import Attachment, Beside
from svc_tui.console.start import Entrance
from svc_tui.user_home import Home


def main(arguments: Sequence[str]) -> None:
    """Show the Console to whom the driver in TEXTUAL_DRIVER speaks with."""
    wanted = json.loads(arguments[0])
    project = wanted["project"]
    home = Home.from_environment(os.environ).root
    keys = keymap.read(home, app.binding_ids())
    if folder := wanted["folder"]:
        attachment: Attachment = Beside(project, Path(folder), wanted["address"])
        desk = of_folder(Path(folder), project, os.environ)
    else:
        login, attachment = connect.of_service(project)
        desk = DeployDesk(project, lambda: login, None)
    app.run(attachment, Entrance(), keys, desk, home)


if __name__ == "__main__":
    main(sys.argv[1:])
