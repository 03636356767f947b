"""The file `.env` beside `svc.toml`: values of secrets for development."""

import io
import re
from collections.abc import Mapping
from pathlib import Path

from dotenv.parser import parse_stream

from engine.errors import SvcError

ENV_FILE = ".env"
MAX_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_env(path: Path) -> dict[str, str]:
    """Return the variables of a file, without replacing `$NAME` in values. Raises `SvcError`."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        hint = "Check the name and permissions of the file."
        raise SvcError(f"cannot read {path}: {error.strerror}", hint) from error
    if len(content) > MAX_BYTES:
        hint = "Check that this is the right file."
        raise SvcError(f"{path.name} is larger than {MAX_BYTES >> 20} MiB", hint)
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SvcError(f"{path.name}:{line}: the text is not UTF-8", "Save it as UTF-8.") from error
    values: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(text)):
        original = binding.original
        blank = original.string[: len(original.string) - len(original.string.lstrip())]
        place = f"{path.name}:{original.line + blank.count(chr(10))}"
        if not binding.error and binding.key is None:
            continue
        if binding.error or binding.key is None or binding.value is None:
            raise SvcError(f"{place}: not a variable", 'Write NAME=value, or NAME="value".')
        if not _NAME.fullmatch(binding.key):
            hint = "Use letters, digits and _, no digit first."
            raise SvcError(f'{place}: "{binding.key}" is not a variable name', hint)
        if binding.key in values:
            raise SvcError(f"{place}: {binding.key} is set twice", "Remove one of the two lines.")
        if "\0" in binding.value:
            raise SvcError(f"{place}: the value of {binding.key} has a NUL character", "Remove it.")
        values[binding.key] = binding.value
    return values


def development_values(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values for secrets of a project: those of the environment, and of its `.env` if it exists.

    The environment wins. Raises `SvcError`.
    """
    path = root / ENV_FILE
    return {**(read_env(path) if path.is_file() else {}), **environ}
