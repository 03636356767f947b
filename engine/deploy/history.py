"""Which deployments there are, and which one of a Project is live. Owns the keys of their cells.

`deployments/<project>/<id>` is a record, written once. `live/<project>` names the one that serves and those
that did before; it changes in one step (compare and set), so a flip happens wholly or not at all, and a flip
that was made knowing less than what is there is a conflict.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from pydantic import TypeAdapter

from engine.bucket.protocols import Bucket, Conflict, VersionedValue
from engine.deploy import package_store
from engine.deploy.deployment import Deployment, RecordError, decode
from engine.errors import SvcError

RECORDS, LIVE = "deployments/", "live/"
MAX_ACTIVATIONS = 100
MAX_DEPLOYMENTS = 20


class DeploymentError(SvcError):
    """There is no such deployment, or there is one already."""

    code = "deployment"


@dataclass(frozen=True, slots=True)
class Activation:
    """A deployment went live: when (Unix epoch, ns), by whom, and why it did, where somebody said so."""

    deployment: str
    at_ns: int
    by: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Live:
    """What serves a Project: the last of `flips`. `revision` is what the next flip is made against."""

    project: str
    flips: tuple[Activation, ...]
    revision: int

    @property
    def deployment(self) -> str:
        """The id of the deployment that serves."""
        return self.flips[-1].deployment


_FLIPS = TypeAdapter(tuple[Activation, ...])


class History:
    """The deployments of a bucket. Methods raise `BucketError` too."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._cells = bucket.kv

    async def add(self, deployment: Deployment) -> None:
        """Record a deployment whose packages are stored. Raises `DeploymentError` where its id is taken."""
        key = _record(deployment.project, deployment.id)
        if isinstance(await self._cells.cas(key, deployment.encode(), None), Conflict):
            raise DeploymentError(f"there is a deployment {deployment.id} of {deployment.project} already")

    async def get(self, project: str, id_: str) -> Deployment:
        """Return a deployment. Raises `DeploymentError` and `RecordError`."""
        cell = await self._cells.get(_record(project, id_))
        if cell is None or cell.value is None:
            raise DeploymentError(f"{project} has no deployment {id_}", "See `svc deployments`.")
        return decode(cell.value)

    async def deployments(self, project: str) -> list[Deployment]:
        """Return a Project's deployments, the newest first. Raises `RecordError`."""
        return [decode(cell.value or b"") for cell in reversed(await self._cells.list(_record(project, "")))]

    async def all(self) -> list[Deployment]:
        """Return the deployments of all Projects. Raises `RecordError`."""
        return [decode(cell.value or b"") for cell in await self._cells.list(RECORDS)]

    async def live(self, project: str) -> Live | None:
        """Return what serves a Project."""
        cell = await self._cells.get(LIVE + project)
        return _live(cell) if cell is not None else None

    async def activate(
        self, project: str, id_: str, *, at_ns: int, by: str, revision: int | None, message: str = ""
    ) -> Live | Conflict:
        """Have a deployment, new or old, serve its Project if `revision` is still that of `live` (or `None`).

        All its blobs are there then. Raises `DeploymentError`, and as `store.keep` does.
        """
        deployment = await self.get(project, id_)
        for part in deployment.resources.values():
            await package_store.touch(self._bucket.blobs, part.package)
        before = await self.live(project)
        flips = (*(before.flips if before is not None else ()), Activation(id_, at_ns, by, message))[
            -MAX_ACTIVATIONS:
        ]
        answer = await self._cells.cas(LIVE + project, _FLIPS.dump_json(flips), revision)
        if isinstance(answer, Conflict):
            return answer
        # It may have been forgotten meanwhile, as one that does not serve; its blobs are kept for a while.
        await self._cells.cas(_record(project, id_), deployment.encode(), None)
        return Live(project, flips, answer)

    async def all_live(self) -> list[Live]:
        """Return what serves each Project. Raises `RecordError`."""
        return [_live(cell) for cell in await self._cells.list(LIVE)]

    async def watch(self, after: int = 0) -> AsyncGenerator[Live, None]:
        """Yield what serves each Project, then each flip, as `Cells.watch` does."""
        async with aclosing(self._cells.watch(LIVE, after)) as cells:
            async for cell in cells:
                if cell.value is not None:
                    yield _live(cell)

    async def forget_old(self, project: str, kept: int = MAX_DEPLOYMENTS) -> list[str]:
        """Remove all but the newest records and the one that serves; return the ids of those removed."""
        cells = await self._cells.list(_record(project, ""))
        live = await self.live(project)
        removed = []
        for cell in cells[: max(0, len(cells) - kept)]:
            id_ = cell.key.rpartition("/")[2]
            if live is not None and id_ == live.deployment:
                continue
            if isinstance(await self._cells.cas(cell.key, None, cell.revision), Conflict):
                continue
            # It may have gone live meanwhile: whoever comes last, here or in `flip`, has it back.
            live = await self.live(project)
            if live is not None and id_ == live.deployment:
                await self._cells.cas(cell.key, cell.value, None)
            else:
                removed.append(id_)
        return removed


def _record(project: str, id_: str) -> str:
    return f"{RECORDS}{project}/{id_}"


def _live(cell: VersionedValue) -> Live:
    try:
        flips = _FLIPS.validate_json(cell.value or b"", strict=True)
        if not flips:
            raise ValueError("none")
        return Live(cell.key.removeprefix(LIVE), flips, cell.revision)
    except ValueError as error:
        raise RecordError(f"the cell {cell.key} is damaged", "Deploy the Project again.") from error
