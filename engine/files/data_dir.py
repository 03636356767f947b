"""The `.svc` folder of a project, for recorded data and the data of Doors. Git ignores it."""

from pathlib import Path

DATA_DIR = ".svc"


def ensure_data_dir(folder: Path) -> Path:
    """Create the folder if it is missing, and return it. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder
