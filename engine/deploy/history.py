"""Deployment records of a bucket, and which deployment of each project is live.

`deployments/<project>/<id>` is a record, written once. `live/<project>` has the activations of a project, the
live one last. It changes by compare-and-set, so an activation is atomic, and one based on an outdated
revision is a conflict.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import shorten

from pydantic import TypeAdapter

from engine.bucket.protocols import Bucket, StaleRevision, VersionedValue
from engine.deploy import package_store
from engine.deploy.deployment import Deployment, RecordError, decode
from engine.errors import SvcError

RECORDS, LIVE = "deployments/", "live/"
MAX_ACTIVATIONS = 100
MAX_DEPLOYMENTS = 20


class DeploymentError(SvcError):
    """A deployment does not exist, or its id is taken."""

    code = "deployment"


@dataclass(frozen=True, slots=True)
class Activation:
    """A deployment became live at a time (Unix epoch, ns), by a user, with an optional message."""

    deployment: str
    at_ns: int
    by: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Live:
    """The live deployment of a project: the last of `activations`. A new one must name this `revision`."""

    project: str
    activations: tuple[Activation, ...]
    revision: int

    @property
    def deployment(self) -> str:
        """The id of the live deployment."""
        return self.activations[-1].deployment


_ACTIVATIONS = TypeAdapter(tuple[Activation, ...])


class DeploymentHistory:
    """The deployments of a bucket. Methods raise `BucketError` too."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._values = bucket.kv

    async def add(self, deployment: Deployment) -> None:
        """Record a deployment whose packages are stored. Raises `DeploymentError` if its id is taken."""
        key = _record(deployment.project, deployment.id)
        if isinstance(await self._values.cas(key, deployment.encode(), None), StaleRevision):
            raise DeploymentError(f"deployment {deployment.id} of {deployment.project} already exists")

    async def get(self, project: str, id_: str) -> Deployment:
        """Return a deployment. Raises `DeploymentError` and `RecordError`."""
        cell = await self._values.get(_record(project, id_))
        if cell is None:
            raise DeploymentError(f"{project} has no deployment {id_}", "List them with `svc deployments`.")
        return decode(cell.value)

    async def deployments(self, project: str) -> list[Deployment]:
        """Return a project's deployments, the newest first. Raises `RecordError`."""
        return [decode(cell.value) for cell in reversed(await self._values.list(_record(project, "")))]

    async def all(self) -> list[Deployment]:
        """Return the deployments of all projects. Raises `RecordError`."""
        return [decode(cell.value) for cell in await self._values.list(RECORDS)]

    async def live(self, project: str) -> Live | None:
        """Return the live deployment of a project."""
        cell = await self._values.get(LIVE + project)
        return _live(cell) if cell is not None else None

    async def activate(
        self, project: str, id_: str, *, at_ns: int, by: str, revision: int | None, message: str = ""
    ) -> Live | StaleRevision:
        """Make a deployment live by compare-and-set; return a conflict unless `revision` is the live one.

        `revision` is `None` if no deployment is live yet. Raises `DeploymentError`, and as
        `package_store.touch` does.
        """
        deployment = await self.get(project, id_)
        for part in deployment.resources.values():
            await package_store.touch(self._bucket.blobs, part.package)
        before = await self.live(project)
        earlier = before.activations if before is not None else ()
        activations = (*earlier, Activation(id_, at_ns, by, message))[-MAX_ACTIVATIONS:]
        answer = await self._values.cas(LIVE + project, _ACTIVATIONS.dump_json(activations), revision)
        if isinstance(answer, StaleRevision):
            return answer
        # Its record may have been removed meanwhile as not live. Its blobs still exist.
        await self._values.cas(_record(project, id_), deployment.encode(), None)
        return Live(project, activations, answer)

    async def all_live(self, warn: Callable[[RecordError], None]) -> list[Live]:
        """Return the live deployment of each project. Calls `warn` for corrupt cells, and omits them."""
        all_live = []
        for cell in await self._values.list(LIVE):
            try:
                all_live.append(_live(cell))
            except RecordError as error:
                warn(error)
        return all_live

    async def forget_old(self, project: str, limit: int = MAX_DEPLOYMENTS) -> list[str]:
        """Remove all but the newest, the last activated and the live records; return the removed ids."""
        cells = await self._values.list(_record(project, ""))
        live = await self.live(project)
        activations = live.activations if live is not None else ()
        # Ids sort by the clock, which may have been wrong.
        recent = {each.deployment for each in activations[max(0, len(activations) - limit) :]}
        removed = []
        for cell in cells[: max(0, len(cells) - limit)]:
            id_ = cell.key.rpartition("/")[2]
            if id_ in recent or (live is not None and id_ == live.deployment):
                continue
            if isinstance(await self._values.cas(cell.key, None, cell.revision), StaleRevision):
                continue
            # It may have become live meanwhile: the later of this and `activate` restores it.
            live = await self.live(project)
            if live is not None and id_ == live.deployment:
                await self._values.cas(cell.key, cell.value, None)
            else:
                removed.append(id_)
        return removed


def _record(project: str, id_: str) -> str:
    return f"{RECORDS}{project}/{id_}"


def _live(cell: VersionedValue) -> Live:
    try:
        activations = _ACTIVATIONS.validate_json(cell.value, strict=True)
        if not activations:
            raise ValueError("none")
        return Live(cell.key.removeprefix(LIVE), activations, cell.revision)
    except ValueError as error:
        raise RecordError(
            f"the record of what is live in {cell.key.removeprefix(LIVE)} is corrupt",
            "Restore control.db from a backup.",
        ) from error


class RevisionConflict(SvcError):
    """Another change went live since the client read the revision; this change was not applied."""

    code = "conflict"


def revision_conflict(project: str, live: Live | None) -> RevisionConflict:
    """Return the error for a deploy that is based on another version than the live one."""
    if live is None:
        return RevisionConflict(
            f"{project} is not live any more", "Look again with --plan, and deploy again."
        )
    activation = live.activations[-1]
    when = time.strftime("%H:%M:%S", time.gmtime(activation.at_ns // 10**9))
    message = f" ({shorten(activation.message, 100)})" if activation.message else ""
    return RevisionConflict(
        f"{activation.by or 'another user'} deployed {activation.deployment} of {project} at {when} UTC"
        f"{message}, after this change was planned; nothing was changed",
        "Run `svc deploy --plan` to see the changes, then deploy again.",
    )
