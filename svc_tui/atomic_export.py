"""What is exported, in a file of the user's: there whole in the end, or as it was. Owns that way to write."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from svc_tui.client import SvcError


def write_export(path: Path, pieces: Iterable[bytes]) -> int:
    """Write pieces as they come, and return their bytes; a link stays one. Raises `SvcError`.

    What is there and no file, a device such as /dev/stdout or a pipe, takes them at once.
    """
    size = 0
    part: Path | None = None
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as target:
                return sum(target.write(piece) for piece in pieces)
        path = Path(os.path.realpath(path))
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            part = Path(file.name)
            for piece in pieces:
                size += file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        part.replace(path)
    except OSError as error:
        raise SvcError(
            f"{path} can not be written: {error.strerror}", "Choose another place, or make room there."
        ) from error
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink()
    return size
