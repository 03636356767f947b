"""The edits that are drawn and not written yet, and what the engine says of them.

Owns their order, what svc.toml becomes by them, and what takes those back that were written. Imports no
Textual.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from screens.board.edits import Edit, applied, read
from screens.board.project import Mount
from screens.project_client import ProjectClient
from svc_tui.client import SvcError, Unreachable


@dataclass(frozen=True, slots=True)
class Plan:
    """What svc.toml becomes: the difference, the digest of the file as it is, and what undoes it."""

    diff: str
    digest: str
    inverse: Sequence[dict[str, Any]]


class Draft:
    """Edits in their order. What asks the engine raises `SvcError`, and then nothing has changed."""

    def __init__(self, link: ProjectClient) -> None:
        self._link = link
        self._written: list[Sequence[dict[str, Any]]] = []
        self._undoing = 0
        self._alone = asyncio.Lock()
        self.edits: tuple[Edit, ...] = ()
        self.plan: Plan | None = None
        self.problem: SvcError | None = None
        """Why the edits can not be written as they are, since somebody else changed the file."""

    @property
    def can_undo(self) -> bool:
        """Whether there is anything to take back."""
        return bool(self.edits or self._written)

    async def planned(self, *more: Edit) -> Plan:
        """Return what svc.toml becomes by the edits and some more, which are not kept."""
        return await self._plan([*self.edits, *more])

    async def add(self, mounts: Sequence[Mount], *more: Edit) -> None:
        """Keep further edits; `mounts` are those of the file. Edits that change nothing are none."""
        async with self._alone:
            edits = (*self.edits, *more)
            if set(applied(mounts, edits)) == set(mounts):
                self.clear()
                return
            plan = await self._plan(edits)
            self.edits, self.plan, self.problem = edits, plan, None

    async def again(self) -> None:
        """Plan once more, since the file has changed; `problem` says why that fails."""
        async with self._alone:
            if not self.edits:
                return
            try:
                self.plan, self.problem = await self._plan(self.edits), None
            except Unreachable:
                return  # what was planned stays to be seen; to be written, the file has to be as it was
            except SvcError as error:
                self.plan, self.problem = None, error

    async def take_back(self, mounts: Sequence[Mount]) -> None:
        """Drop the last edit, or draw what undoes what was written last."""
        if self.edits:
            rest = self.edits[:-1]
            self.clear()
            if rest:
                self.edits = rest
                await self.again()
        elif self._written:
            edits = read(self._written[-1], mounts)
            await self.add(mounts, *edits)
            self._undoing = len(self.edits)

    def clear(self) -> None:
        """Drop all edits."""
        self.edits, self.plan, self.problem, self._undoing = (), None, None, 0

    async def write(self) -> bool:
        """Write the edits into svc.toml, as they were shown last; return whether there were any."""
        async with self._alone:
            if self.plan is None:
                if self.problem is not None:
                    raise self.problem
                return False
            body = {"changes": [edit.document for edit in self.edits], "digest": self.plan.digest}
            done = await self._link.call("POST", "/manifest/write", body)
            if self._undoing:
                self._written.pop()
            if self._undoing != len(self.edits):
                self._written.append(done["inverse"])
            self.clear()
            return True

    async def _plan(self, edits: Sequence[Edit]) -> Plan:
        body = {"changes": [edit.document for edit in edits]}
        answer = await self._link.call("POST", "/manifest/plan", body)
        return Plan(answer["diff"], answer["digest"], answer["inverse"])
