"""Support for vendored packages: `go mod vendor`, or `go work vendor` for a workspace.

In a workspace Go ignores a module's vendor folder and expects one beside go.work. The build's workspace gets
one with links to the user's.
"""

import shutil
from pathlib import Path

LIST = "modules.txt"
_WORKSPACE = "## workspace\n"


def vendored(folder: Path) -> Path | None:
    """Return the vendor folder that Go would use in a folder, if any."""
    return folder / "vendor" if (folder / "vendor" / LIST).is_file() else None


def write_vendor(vendor: Path | None, folder: Path) -> None:
    """Link a user's vendor folder beside the go.work in `folder`, or remove the link. Raises `OSError`."""
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
