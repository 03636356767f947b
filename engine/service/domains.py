"""The custom domains of projects in the bucket: which project has a name, and whether the name works.

`names/<name>` is the project that has a name: the first one that proved it. `domains/<project>` has the state
of each name that the live deployment of a project declares. `names/` is written first when a name is proven,
and last when it is released, both by compare-and-set, so two projects never have the same name.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import TypeAdapter

from engine.bucket.protocols import KeyValue, StaleRevision
from engine.errors import SvcError
from engine.manifest.egress import DomainInvalid, below

KEY_PREFIX = "domains/"
NAMES = "names/"
DomainState = Literal["waiting", "valid", "failed"]


class DomainTaken(SvcError):
    """Another project has proven the name."""

    code = "domain-taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A declared name.

    It is `waiting` until it reaches this service. It has `failed` if another project has it, or if it was
    proven and does not reach the service now. `since_ns` is the time of the last change of `state`,
    `declared_ns` and `checked_ns` are those of the first deploy with it and of the last check (Unix epoch).
    """

    name: str
    declared_ns: int
    since_ns: int
    checked_ns: int = 0
    state: DomainState = "waiting"
    proven: bool = False
    detail: str = "not checked yet"


_FORM = TypeAdapter(dict[str, Domain])
Names = Mapping[str, Domain]


class DomainStore:
    """The custom domains of all projects."""

    def __init__(self, cells: KeyValue, domain: str) -> None:
        self._cells, self._domain = cells, domain
        self._known: dict[str, Names] = {}

    async def get(self, project: str) -> Names:
        """Return the declared names of a project."""
        cell = await self._cells.get(KEY_PREFIX + project)
        self._known[project] = _FORM.validate_json(cell.value) if cell is not None else {}
        return self._known[project]

    def known(self, project: str) -> Names:
        """Return the names of a project as they were read last, without access to the bucket."""
        return self._known.get(project, {})

    async def all(self) -> list[tuple[str, Names]]:
        """Return the declared names of each project."""
        cells = await self._cells.list(KEY_PREFIX)
        return [(each.key.removeprefix(KEY_PREFIX), _FORM.validate_json(each.value)) for each in cells]

    async def proven(self, project: str) -> frozenset[str]:
        return frozenset(name for name, each in (await self.get(project)).items() if each.proven)

    async def check_free(self, project: str, names: Collection[str], may_view: Callable[[str], bool]) -> None:
        """Raise `DomainInvalid` and `DomainTaken` for names that a project cannot have.

        Another project is named only if `may_view` permits it.
        """
        for name in names:
            if below(name, self._domain):
                hint = f"Names there are addresses of projects; use a name outside of {self._domain}."
                raise DomainInvalid(f"{name} belongs to the service: its domain is {self._domain}", hint)
            owner = await self._owner(name)
            if owner not in ("", project):
                named = f"the project {owner}" if may_view(owner) else "another project"
                hint = f"Remove {name} from svc.toml, or have the other project remove it and deploy."
                raise DomainTaken(f"the domain {name} belongs to {named}", hint)

    async def declare(self, project: str, names: Collection[str]) -> None:
        """Declare exactly these names, and release others."""
        now = time.time_ns()

        def change(before: Names) -> Names:
            return {
                name: before.get(name) or Domain(name=name, declared_ns=now, since_ns=now) for name in names
            }

        before, after = await self._change(project, change)
        for name in before.keys() - after.keys():
            await self._release(project, name)

    async def checked(self, project: str, before: Domain, *, reached: bool, detail: str) -> bool:
        """Store the result of a check of a declared name. Return whether the project now has a new name."""
        now, proven = time.time_ns(), before.proven
        if reached and not proven:
            proven = await self._claim(project, before.name)
            if not proven:
                detail = "another project has this domain"
        taken = reached and not proven
        state: DomainState = "valid" if reached and proven else "failed" if proven or taken else "waiting"
        since = before.since_ns if state == before.state else now
        after = replace(before, since_ns=since, checked_ns=now, state=state, proven=proven, detail=detail)

        def change(names: Names) -> Names:
            declared = names.get(before.name)
            if declared is None or declared.declared_ns != before.declared_ns:
                return names
            return {**names, before.name: replace(after, proven=proven or declared.proven)}

        _, stored = await self._change(project, change)
        if proven and before.name not in stored:
            await self._release(project, before.name)  # It was removed during the check.
        return proven and not before.proven

    async def _change(self, project: str, change: Callable[[Names], Names]) -> tuple[Names, Names]:
        while True:
            cell = await self._cells.get(KEY_PREFIX + project)
            before = _FORM.validate_json(cell.value) if cell is not None else {}
            after = change(before)
            self._known[project] = after
            if before == after:
                return before, after
            value = _FORM.dump_json(dict(after)) if after else None
            revision = cell.revision if cell is not None else None
            if not isinstance(await self._cells.cas(KEY_PREFIX + project, value, revision), StaleRevision):
                return before, after

    async def _owner(self, name: str) -> str:
        """Return the project that has a name, or "". A process killed before a release left it behind."""
        cell = await self._cells.get(NAMES + name)
        owner = str(json.loads(cell.value)) if cell is not None else ""
        if owner and name not in await self.get(owner):
            await self._release(owner, name)
            return ""
        return owner

    async def _claim(self, project: str, name: str) -> bool:
        """Give a name to a project unless another has it; return whether the project has it.

        A name that it has gets a new revision, so that a release that began before does not apply.
        """
        while await self._owner(name) in ("", project):
            cell = await self._cells.get(NAMES + name)
            if cell is not None and cell.value != json.dumps(project).encode():
                continue
            revision = cell.revision if cell is not None else None
            if not isinstance(
                await self._cells.cas(NAMES + name, json.dumps(project).encode(), revision), StaleRevision
            ):
                return True
        return False

    async def _release(self, project: str, name: str) -> None:
        """Remove a project as the owner of a name that it does not declare."""
        cell = await self._cells.get(NAMES + name)
        if (
            cell is not None
            and cell.value == json.dumps(project).encode()
            and name not in await self.get(project)
        ):
            await self._cells.cas(NAMES + name, None, cell.revision)
