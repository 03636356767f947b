"""Unsaved edits of mounts, with their preview by the engine. Does not import Textual."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from screens.board.edits import MountEdit, apply_edits, parse_edits
from screens.board.project import BoardMount
from screens.project_client import ProjectClient
from svc_tui.client import SvcError, Unreachable


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """The effect of edits: a diff of svc.toml, and the digest of the file or deployment."""

    diff: str
    digest: str


@dataclass(frozen=True, slots=True)
class _Restore:
    """Staged edits that undo or redo saved ones: the first `edits` of the draft.

    Saving them moves an entry from `source` to `target`.
    """

    source: list[Sequence[dict[str, Any]]]
    target: list[Sequence[dict[str, Any]]]
    edits: int


class MountDraft:
    """An ordered list of edits. Methods that call the engine raise `SvcError` and change nothing then."""

    def __init__(self, client: ProjectClient) -> None:
        self._client = client
        self._written: list[Sequence[dict[str, Any]]] = []
        self._undone: list[Sequence[dict[str, Any]]] = []
        self._restore: _Restore | None = None
        self._before_undo: list[tuple[tuple[MountEdit, ...], _Restore | None]] = []
        self._lock = asyncio.Lock()
        self.edits: tuple[MountEdit, ...] = ()
        self.plan: ManifestPlan | None = None
        self.problem: SvcError | None = None
        """Why the edits no longer apply: another program or user changed what they are based on."""

    @property
    def can_undo(self) -> bool:
        """True if there is an edit to undo."""
        return bool(self.edits or self._written)

    @property
    def can_redo(self) -> bool:
        """True if there is an undo to take back."""
        return bool(self._before_undo or (self._undone and not self.edits))

    async def preview(self, *extra: MountEdit) -> ManifestPlan:
        """Return the plan of the edits and some more, without adding them."""
        return await self._plan([*self.edits, *extra])

    async def add(self, mounts: Sequence[BoardMount], *added: MountEdit) -> None:
        """Add edits to the draft; `mounts` are those of the file. Edits that cancel out clear the draft."""
        await self._add(mounts, added)
        self._before_undo.clear()

    async def _add(self, mounts: Sequence[BoardMount], added: Sequence[MountEdit]) -> None:
        async with self._lock:
            edits = (*self.edits, *added)
            if set(apply_edits(mounts, edits)) == set(mounts):
                self.clear()
                return
            plan = await self._plan(edits)
            self.edits, self.plan, self.problem = edits, plan, None

    async def replan(self) -> None:
        """ManifestPlan again after a change of the file; `problem` holds the error."""
        async with self._lock:
            if not self.edits:
                return
            try:
                self.plan, self.problem = await self._plan(self.edits), None
            except Unreachable:
                return  # The last plan stays visible. Its digest prevents saving if the file has changed.
            except SvcError as error:
                self.plan, self.problem = None, error

    async def undo(self, mounts: Sequence[BoardMount]) -> None:
        """Remove the last edit, or stage the inverse of the last saved edits."""
        before = self.edits, self._restore
        if self.edits:
            remaining = self.edits[:-1]
            self.clear()
            if remaining:
                self.edits = remaining
                await self.replan()
        else:
            await self._stage(self._written, self._undone, mounts)
        if self.edits != before[0]:
            self._before_undo.append(before)

    async def redo(self, mounts: Sequence[BoardMount]) -> None:
        """Reverse the last undo, or stage edits again whose undo was saved."""
        if self._before_undo:
            self.clear()
            self.edits, self._restore = self._before_undo.pop()
            await self.replan()
        elif not self.edits:
            await self._stage(self._undone, self._written, mounts)

    async def _stage(
        self,
        source: list[Sequence[dict[str, Any]]],
        target: list[Sequence[dict[str, Any]]],
        mounts: Sequence[BoardMount],
    ) -> None:
        if source:
            await self._add(mounts, parse_edits(source[-1], mounts))
            self._restore = _Restore(source, target, len(self.edits))

    def clear(self) -> None:
        """Remove all edits."""
        self.edits, self.plan, self.problem, self._restore = (), None, None, None

    async def write(self) -> Literal["", "undo", "redo"]:
        """Save the edits. Return what takes the save back; "" without edits."""
        async with self._lock:
            if self.plan is None:
                if self.problem is not None:
                    raise self.problem
                return ""
            body = {"changes": [edit.document for edit in self.edits], "digest": self.plan.digest}
            response = await self._client.call("POST", "/manifest/write", body)
            restore = self._restore
            if restore is not None:
                restore.source.pop()
            if restore is not None and restore.edits == len(self.edits):
                target = restore.target
            else:
                target = self._written
                self._undone.clear()
            target.append(response["inverse"])
            self._before_undo.clear()
            self.clear()
            return "undo" if target is self._written else "redo"

    async def _plan(self, edits: Sequence[MountEdit]) -> ManifestPlan:
        body = {"changes": [edit.document for edit in edits]}
        answer = await self._client.call("POST", "/manifest/plan", body)
        return ManifestPlan(answer["diff"], answer["digest"])
