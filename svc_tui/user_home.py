"""Where this user's files live: `SVC_HOME`, else `~/.svc`.

Owns the folder's layout; `cache/` may be deleted at any time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import SvcError


@dataclass(frozen=True, slots=True)
class Home:
    """The user's own folder of `svc`."""

    root: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Home":
        """Find the folder; nothing is created yet."""
        named = environ.get("SVC_HOME")
        return cls(Path(named).expanduser().absolute() if named else Path.home() / ".svc")

    def cache(self) -> Path:
        """Return the cache folder, made when it is missing. Raises `SvcError` when it can not be."""
        folder = self.root / "cache"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise SvcError(
                f"{folder} can not be made: {error.strerror}",
                "Set SVC_HOME to a folder that you can write.",
            ) from error
        return folder
