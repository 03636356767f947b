"""svc's own folder in a Project: what it records there, and the data of the Project's Doors.

Owns its name and its making. It tells git to leave it alone.
"""

from pathlib import Path

DATA_DIR = ".svc"


def ensure_data_dir(folder: Path) -> Path:
    """Return svc's own folder, made when it is missing. Raises `OSError` when it can not be."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder
