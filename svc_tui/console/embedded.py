"""The engine of a Project inside the Console: that of `svc dev`, which tells the Console instead of stderr.

Apart from `attachment.py` because it takes a second to load, which the first screen does not wait for.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from engine.control.discovery import Presence
from engine.dev.project import Built
from engine.errors import SvcError
from engine.manifest.load import load
from engine.timeline.bus import Timeline
from svc_tui.console.engine import Tell
from svc_tui.dev.server import Settings, developing
from svc_tui.user_home import Home


@asynccontextmanager
async def embedded(
    folder: Path, sockets: list[socket.socket], tell: Tell, stop: asyncio.Event
) -> AsyncIterator[Presence]:
    """Run the Project in a folder on bound sockets; gives where its control API is. Raises `SvcError`."""
    settings = Settings([sockets], Home.from_environment(os.environ).cache(), "dev")
    async with developing(load(folder), settings, Timeline(), _Told(tell), stop) as running:
        yield await running.presence


class _Told:
    """Has the Console show what matters; what goes well is on the Board."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._broken: set[str] = set()

    def error(self, error: SvcError) -> None:
        self._tell("error", error.message, error.hint)

    def warn(self, error: SvcError) -> None:
        self._tell("warning", error.message, error.hint)

    def note(self, text: str) -> None:
        self._tell("information", text, "")

    def progress(self, text: str) -> None:
        """Leave it to the Board."""

    def built(self, event: Built) -> None:
        if event.error is not None:
            self._broken.add(event.resource)
            self._tell("error", f"{event.resource} did not build: {event.error.message}", event.error.hint)
        elif event.resource in self._broken:
            self._broken.discard(event.resource)
            self._tell("information", f"{event.resource} builds again", "")
