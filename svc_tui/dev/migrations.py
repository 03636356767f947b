"""The migrations of a Project in its developer's hands: applied when `svc dev` starts, and as they are saved.

One that is broken is told, and everything else serves; one that was edited too late is told, and the others
are applied.
"""

import asyncio
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Protocol

from watchfiles import awatch

from doors.tables.migrations import FOLDER
from engine.errors import SvcError
from svc_tui.composition import migrate

_LOOK_MS = 500
"""How soon the end is noticed."""


class Teller(Protocol):
    """Who hears of what was applied and what was not."""

    def error(self, error: SvcError) -> None:
        """A migration is broken, and the tables stay as they were."""

    def warn(self, error: SvcError) -> None:
        """A migration was edited after it was applied."""

    def note(self, text: str) -> None:
        """A migration was applied."""


async def apply(root: Path, data: Path, tell: Teller) -> None:
    """Apply what is new, and say so; `data` is the folder of the Project's data."""
    try:
        applied = await asyncio.to_thread(migrate, root, data, tell.warn)
    except SvcError as error:
        tell.error(error)
        tell.note("the tables stay as they were")
        return
    for name in applied:
        tell.note(f"{name} applied")


async def keep(root: Path, data: Path, stop: asyncio.Event, tell: Teller) -> None:
    """Apply migrations as they are saved, until `stop` is set; their folder may come and go."""
    folder = root / FOLDER
    there, again = folder.is_dir(), False
    while not stop.is_set() and root.is_dir():
        watch = awatch(
            *((root, folder) if there else (root,)),
            stop_event=stop,
            recursive=False,
            rust_timeout=_LOOK_MS,
            ignore_permission_denied=True,
        )
        # It begins when the watch has begun, so that nothing that was saved in between is missed.
        looking = asyncio.create_task(apply(root, data, tell)) if there and again else None
        with suppress(FileNotFoundError):
            async with aclosing(watch) as batches:
                async for changes in batches:
                    paths = {Path(path) for _, path in changes}
                    if folder in paths or folder.is_dir() != there:
                        break
                    if any(path.parent == folder for path in paths):
                        await apply(root, data, tell)
        if looking is not None:
            await looking
        there, again = folder.is_dir(), True
