"""The user's own folder of svc: `SVC_HOME`, or `~/.svc`. Its `cache/` may be deleted at any time."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import SvcError


@dataclass(frozen=True, slots=True)
class Home:
    """The layout of the folder."""

    root: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Home":
        """Return the folder that the environment selects, without creating it."""
        path = environ.get("SVC_HOME")
        return cls(Path(path).expanduser().absolute() if path else Path.home() / ".svc")

    def data(self, chosen: Path | None) -> Path:
        """Return the absolute path of the data directory that the user chose, or of the default one."""
        return Path(os.path.normpath((chosen or self.root / "data").expanduser().absolute()))

    def cache(self) -> Path:
        """Return the cache folder, created if missing. Raises `SvcError` when that fails."""
        folder = self.root / "cache"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            hint = "Set SVC_HOME to a folder that you can write to."
            raise SvcError(f"cannot create {folder}: {error.strerror}", hint) from error
        return folder
