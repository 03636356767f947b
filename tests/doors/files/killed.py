"""Stores a file, and kills its own process at a step: python -m tests.doors.files.killed FOLDER STEP

Prints the number of steps if there are fewer.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doors.tables.project_database import ProjectDatabase
from engine.bucket import blobs
from tests.doors.files.files_door import Files

NEW = b"new" * 700_000


class Steps:
    """Counts steps; ends the process at one of them."""

    def __init__(self, last: int) -> None:
        self.count, self._last = 0, last

    def step(self) -> None:
        self.count += 1
        if self.count == self._last:
            os._exit(9)

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with a step before and after it."""

        def stepped(*arguments: Any, **options: Any) -> Any:
            self.step()
            result = call(*arguments, **options)
            self.step()
            return result

        return stepped


class SteppedDatabase(ProjectDatabase):
    """A database whose transactions have steps, also before and after the commit."""

    steps: Steps

    def write(self, work: Callable[[Any], Any], *arguments: Any) -> Any:
        def stepped(connection: Any) -> Any:
            result = self.steps.around(work)(connection)
            connection.execute("SELECT 1")
            return result

        return self.steps.around(super().write)(stepped, *arguments)


def main(folder: Path, last: int) -> None:
    """Run the command."""
    steps = SteppedDatabase.steps = Steps(last)
    for owner, name in ((blobs.Upload, "write"), (blobs.Upload, "commit"), (blobs.Upload, "discard")):
        setattr(owner, name, steps.around(getattr(owner, name)))
    blobs.sync_folder = steps.around(blobs.sync_folder)
    files = Files(folder, SteppedDatabase)
    assert asyncio.run(files.put("a", NEW)).status == 201
    print(steps.count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
