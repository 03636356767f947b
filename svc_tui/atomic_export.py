"""Atomic writes of exported files: after a failure the existing file is unchanged."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from svc_tui.client import SvcError


def write_export(path: Path, chunks: Iterable[bytes]) -> int:
    """Write chunks to a file and return the number of bytes; links and permissions stay as they are.

    A device or pipe, such as /dev/stdout, receives each chunk directly. Raises `SvcError` when writing fails.
    """
    size = 0
    temporary: Path | None = None
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as target:
                return sum(target.write(chunk) for chunk in chunks)
        real = Path(os.path.realpath(path))
        with tempfile.NamedTemporaryFile(dir=real.parent, prefix=f".{real.name}.", delete=False) as file:
            temporary = Path(file.name)
            for chunk in chunks:
                size += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(real.stat().st_mode & 0o777 if real.exists() else 0o666 & ~mask)
        temporary.replace(real)
    except OSError as error:
        hint = "Choose another path, or free disk space there."
        raise SvcError(f"cannot write {path}: {error.strerror}", hint) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
    return size
