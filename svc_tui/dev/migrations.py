"""Migrations of a project in development: applied when `svc dev` starts, and when a file is saved.

A broken migration is reported and everything else serves. A migration edited after it was applied is
reported too, and the others are applied.
"""

import asyncio
from pathlib import Path
from typing import Protocol

from doors.tables.migrations import MIGRATIONS_FOLDER, migrate
from engine.errors import SvcError

QUIET_SECONDS = 0.05
"""A file is complete once nothing in the folder has changed for this long."""


class MigrationReporter(Protocol):
    """Receives the outcome of migrations."""

    def error(self, error: SvcError) -> None:
        """Report a broken migration; the tables stay as they were."""

    def warn(self, error: SvcError) -> None:
        """Report a file that is not applied: a migration that was edited, or one with another name."""

    def note(self, text: str) -> None:
        """Report an applied migration."""


class MigrationListener:
    """Applies the new migrations of a project; `data` is the folder of the project's data."""

    def __init__(self, root: Path, data: Path, reporter: MigrationReporter) -> None:
        self._root = root
        self._data = data
        self._reporter = reporter
        self._changed = False
        self._applying: asyncio.Task[None] | None = None

    async def __call__(self, paths: set[Path]) -> None:
        """Handle a batch of changed paths: apply migrations in the background if theirs are among them."""
        folder = self._root / MIGRATIONS_FOLDER
        if not any(folder in (path, path.parent) for path in paths):
            return
        self._changed = True
        if self._applying is None or self._applying.done():
            self._applying = asyncio.create_task(self._apply_changed())

    async def _apply_changed(self) -> None:
        while self._changed:
            while self._changed:
                self._changed = False
                await asyncio.sleep(QUIET_SECONDS)
            await self.apply()

    async def apply(self) -> None:
        """Apply the migrations that are new."""
        try:
            applied = await asyncio.to_thread(migrate, self._root, self._data, self._reporter.warn)
        except SvcError as error:
            self._reporter.error(error)
            self._reporter.note("the tables are unchanged")
            return
        for name in applied:
            self._reporter.note(f"{name} applied")

    async def aclose(self) -> None:
        """Wait until migrations in progress are applied."""
        if self._applying is not None:
            await self._applying
