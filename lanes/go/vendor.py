"""Lets a build use packages that a module vendors: `go mod vendor`, or `go work vendor` for a workspace.

Go ignores a module's vendor folder in a workspace, and looks for one beside go.work. That one is made here,
of links to the user's.
"""

import shutil
from pathlib import Path

LIST = "modules.txt"
_WORKSPACE = "## workspace\n"


def vendored(folder: Path) -> Path | None:
    """Return the vendor folder in a folder, if there is one that Go would use."""
    return folder / "vendor" if (folder / "vendor" / LIST).is_file() else None


def write_vendor(vendor: Path | None, folder: Path) -> None:
    """Put a user's vendor folder, or none, beside the go.work in `folder`. Raises `OSError`."""
    place = folder / "vendor"
    if place.is_dir():
        shutil.rmtree(place)
    if vendor is None:
        return
    place.mkdir()
    for entry in vendor.iterdir():
        if entry.name != LIST:
            (place / entry.name).symlink_to(entry)
    text = (vendor / LIST).read_text(encoding="utf-8")
    (place / LIST).write_text(_WORKSPACE + text.removeprefix(_WORKSPACE), encoding="utf-8")
