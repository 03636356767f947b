"""Removals of projects, recorded in the bucket so that they are completed after a kill.

`removals/<project>` is written first. From then on the removal is completed, at the next start if need be.
The record stays, for nodes of a fleet that do not run: each node has a file with the last removal of each
project that it has applied to its own data. Any number of processes can complete the same removal: they
delete only values that are older than its end.
"""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from engine.bucket.protocols import KeyValue, disk_errors
from engine.deploy.deployment import LIVE, RECORDS
from engine.files.atomic import write_atomic
from engine.schedules.scheduler import KEY_PREFIX as SCHEDULES
from engine.service.domains import KEY_PREFIX as DOMAINS
from engine.service.quotas import KEY_PREFIX as QUOTAS
from engine.service.secrets import KEY_PREFIX as SECRETS

KEY_PREFIX = "removals/"
OF_PROJECTS = (LIVE, RECORDS, SCHEDULES, SECRETS, QUOTAS, DOMAINS, KEY_PREFIX)
"""Beginnings of the keys that the name of a project follows."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal by a user. `at_ns` is when it began, or ended if it is `complete` (Unix epoch).

    Nodes of a fleet apply it when it has begun and when it has ended, with another `id`.
    """

    id: str
    by: str
    at_ns: int
    complete: bool = False


_FORM = TypeAdapter(Removal)


def removal_times(records: Mapping[str, bytes]) -> dict[str, int]:
    """Return when projects of a bucket with these values were last removed (Unix epoch, ns)."""
    removals = {key: _FORM.validate_json(each) for key, each in records.items() if key.startswith(KEY_PREFIX)}
    return {key.removeprefix(KEY_PREFIX): each.at_ns for key, each in removals.items() if each.complete}


class Removals:
    """The removals in a bucket. Methods raise `BucketError`."""

    def __init__(self, cells: KeyValue, applied: Path | None = None) -> None:
        """`applied` is the file of a node of a fleet."""
        self._cells, self._applied = cells, applied

    async def all(self) -> dict[str, Removal]:
        """Return the last removal of each project."""
        cells = await self._cells.list(KEY_PREFIX)
        return {each.key.removeprefix(KEY_PREFIX): _FORM.validate_json(each.value) for each in cells}

    async def get(self, project: str) -> Removal | None:
        """Return the last removal of a project."""
        cell = await self._cells.get(KEY_PREFIX + project)
        return _FORM.validate_json(cell.value) if cell is not None else None

    async def is_pending(self, project: str) -> bool:
        """Return whether a project is being removed."""
        removal = await self.get(project)
        return removal is not None and not removal.complete

    async def is_stored(self, project: str) -> bool:
        """Return whether the bucket has anything that a removal of the project would delete."""
        cells = [await self._cells.get(prefix + project) for prefix in (LIVE, SECRETS, QUOTAS)]
        return any(cells) or bool(await self._cells.list(f"{RECORDS}{project}/"))

    async def begin(self, project: str, by: str) -> None:
        """Record that a project is removed from now on, unless it is being removed."""
        record = _FORM.dump_json(Removal(secrets.token_hex(6), by, time.time_ns()))
        while not await self.is_pending(project):
            cell = await self._cells.get(KEY_PREFIX + project)
            await self._cells.cas(KEY_PREFIX + project, record, cell.revision if cell is not None else None)

    async def stop_serving(self, project: str) -> None:
        """Delete what says which deployment is live."""
        while cell := await self._cells.get(LIVE + project):
            if not await self.is_pending(project):
                return
            await self._cells.cas(cell.key, None, cell.revision)

    async def complete(self, project: str) -> None:
        """Delete the deployments, schedules, secrets, quota and domains, and record the end of the removal.

        The owner of a domain that no project declares is deleted when another project claims the domain.
        """
        keys = [prefix + project for prefix in (SCHEDULES, SECRETS, QUOTAS, DOMAINS)]
        found = [await self._cells.get(key) for key in keys]
        cells = [*await self._cells.list(f"{RECORDS}{project}/"), *filter(None, found)]
        record = await self._cells.get(KEY_PREFIX + project)
        if record is None or (removal := _FORM.validate_json(record.value)).complete:
            return
        for cell in cells:
            await self._cells.cas(cell.key, None, cell.revision)
        ended = _FORM.dump_json(Removal(secrets.token_hex(6), removal.by, time.time_ns(), complete=True))
        await self._cells.cas(record.key, ended, record.revision)

    async def is_unapplied(self, project: str) -> bool:
        """Return whether this node of a fleet has data from before a removal."""
        removal = await self.get(project)
        if self._applied is None or removal is None or self._read().get(project) == removal.id:
            return False
        return removal.complete or await self._cells.get(LIVE + project) is None

    async def unapplied(self) -> list[str]:
        """Return the projects of which this node of a fleet has data from before a removal.

        A node that joins has none.
        """
        if self._applied is None:
            return []
        removals = await self.all()
        if not self._applied.exists():
            self._write({project: each.id for project, each in removals.items() if each.complete})
        return [project for project in removals if await self.is_unapplied(project)]

    async def applied(self, project: str) -> None:
        """Note that this node has deleted its data of a project."""
        if self._applied is not None and (removal := await self.get(project)) is not None:
            self._write({**self._read(), project: removal.id})

    def _read(self) -> dict[str, str]:
        assert self._applied is not None
        with disk_errors(self._applied):
            return dict(json.loads(self._applied.read_text())) if self._applied.exists() else {}

    def _write(self, applied: Mapping[str, str]) -> None:
        assert self._applied is not None
        with disk_errors(self._applied):
            write_atomic(self._applied, json.dumps(applied).encode(), sync=True)
