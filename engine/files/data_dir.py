"""The `.svc` folder of a project, for recorded data and the data of Doors. Git ignores it."""

import os
from pathlib import Path

DATA_DIR = os.environ.get("SVC_TEST_DATA") or ".svc"
"""Name of the folder. `svc test` gives the commands that it runs another folder, by its absolute path."""


def ensure_data_dir(folder: Path) -> Path:
    """Create the folder if it is missing, and return it. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder
