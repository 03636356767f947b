"""How the Console deploys: the steps of `svc deploy` and `svc rollback`, told to a screen.

Owns what a deploy is between its plan and its end. It prints nothing and draws nothing. What builds takes
seconds to load and is needed by a deploy only, so it is loaded then.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.artifact import Artifact
from engine.errors import SvcError
from engine.manifest.load import load
from engine.manifest.model import Resource
from screens.board.deploy_protocol import Address, Deployment, Live, Plan, Progress, Rollback, Tell
from svc_tui.client.credentials import Credentials, CredentialStore, open_client
from svc_tui.deploy.format import built_line, differences, files, latest_rollback, local_time, location
from svc_tui.deploy.git import commit_of
from svc_tui.terminal.units import size
from svc_tui.user_home import Home

if TYPE_CHECKING:
    from svc_tui.deploy.uploader import Bundle


class DeployCancelled(SvcError):
    """It was broken off before the service was asked for anything."""

    code = "cancelled"


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The Project's files, where its builds are kept, and what remembers to which service it belongs."""

    root: Path
    cache: Path
    link_service: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Planned:
    bundle: "Bundle"
    missing: list[str]
    revision: int | None


class ConsoleDeployer:
    """One Project's way to its service; the Board's `Deployer`."""

    def __init__(self, project: str, login: Callable[[], Credentials], sources: ProjectFiles | None) -> None:
        """`login` raises `NotLoggedIn` where there is none; no `sources`: the files are elsewhere."""
        self.has_files = sources is not None
        self._project = project
        self._login = login
        self._files = sources
        self._planned: _Planned | None = None
        self._building: tuple[asyncio.AbstractEventLoop, asyncio.Task[Bundle]] | None = None
        self._reporter: _ProgressReporter | None = None
        self._lock = threading.Lock()

    def plan(self, tell: Tell) -> Plan:
        """Build every Resource, and ask the service what would change."""
        if self._files is None:
            raise SvcError(f"the files of {self._project} are not here", "Deploy in the Project's folder.")
        from svc_tui.deploy import uploader

        project = load(self._files.root)
        self._reporter = teller = _ProgressReporter(tell, max(map(len, project.resources), default=0))
        with self._lock:
            self._planned = None
            login = self._login()
            with open_client(login) as client:
                uploader.require_deployer(client, project.name)
                teller.raise_if_cancelled()
                bundle = asyncio.run(self._build(uploader.build(project, self._files.cache, teller)))
                planned = uploader.plan(client, bundle)
            teller.raise_if_cancelled()
        missing = planned["missing"]
        self._planned = _Planned(bundle, missing, planned["revision"])
        return Plan(
            login.key,
            planned["live"],
            tuple(differences(planned["changes"])),
            len(missing),
            uploader.upload_size(bundle, missing),
            tuple(planned["migrations"]),
        )

    async def _build(self, building: "Coroutine[Any, Any, Bundle]") -> "Bundle":
        task = asyncio.ensure_future(building)
        self._building = asyncio.get_running_loop(), task
        try:
            return await task
        except asyncio.CancelledError:
            raise DeployCancelled("the build was broken off") from None
        finally:
            self._building = None

    def run(self, tell: Tell, *, allow: bool, message: str) -> Live:
        """Upload what the service lacks, and have it take what was planned live."""
        planned, sources = self._planned, self._files
        if planned is None or sources is None:
            raise SvcError("nothing is planned", "Look at what would change first.")
        from svc_tui.deploy import uploader

        self._reporter = teller = _ProgressReporter(tell)
        login = self._login()
        with open_client(login) as client:
            sent = uploader.upload(client, planned.bundle, planned.missing, teller)
            what = f"{size(sent)} in {files(len(planned.missing))}"
            tell(Progress("upload", what if sent else "nothing to send"))
            teller.committing()
            done = uploader.deploy(
                client,
                planned.bundle,
                planned.revision,
                teller,
                commit=commit_of(sources.root),
                message=message,
                allow=allow,
            )
        sources.link_service(login.key)
        self._planned = None
        return _live(done)

    def cancel(self) -> bool:
        """Break off a build or an upload; what the service was asked for goes on."""
        teller, building = self._reporter, self._building
        if teller is None or not teller.cancel():
            return False
        if building is not None:
            loop, task = building
            with suppress(RuntimeError):  # the build has just ended
                loop.call_soon_threadsafe(task.cancel)
        return True

    def history(self) -> Sequence[Deployment]:
        """Return the deployments that are kept."""
        with open_client(self._login()) as client:
            found = client.call("GET", f"/v1/projects/{self._project}/deployments")
        return [_deployment(each, found["flips"]) for each in found["deployments"]]

    def rollback_plan(self, deployment: str) -> Rollback:
        """Ask the service what a rollback would change."""
        with open_client(self._login()) as client:
            path = f"/v1/projects/{self._project}/deployments/{deployment}/rollback"
            planned = client.call("GET", path)
        changes = tuple(differences(planned["changes"]))
        return Rollback(deployment, planned["live"], planned["revision"], changes)

    def rollback(self, plan: Rollback, reason: str) -> Live:
        """Have a deployment live again."""
        wish = {"deployment": plan.deployment, "revision": plan.revision, "message": reason}
        with open_client(self._login()) as client:
            return _live(client.call("POST", f"/v1/projects/{self._project}/rollback", wish))


def deployer_for_folder(root: Path, project: str, environ: Mapping[str, str]) -> ConsoleDeployer:
    """Return the way from a Project's folder to the service it belongs to, or that one is logged in to."""
    logins = CredentialStore.from_environment(environ)
    cache = Home.from_environment(environ).cache()
    sources = ProjectFiles(root, cache, lambda key: logins.link_project(root, key))
    return ConsoleDeployer(project, lambda: logins.get(root), sources)


class _ProgressReporter:
    """Tells a screen how a deploy goes on, and ends it on the way where that is wanted."""

    def __init__(self, tell: Tell, width: int = 0) -> None:
        """`width` is that of the longest Resource's name."""
        self._on_progress = tell
        self._width = width
        self._cancelled = False
        self._committing = False

    def cancel(self) -> bool:
        """Have the deploy end at the next thing that is told; return whether it still may."""
        self._cancelled = not self._committing
        return self._cancelled

    def raise_if_cancelled(self) -> None:
        """Raise `Cancelled` where it was."""
        if self._cancelled:
            raise DeployCancelled("the deploy was broken off")

    def committing(self) -> None:
        """From now on the service is at it."""
        self.raise_if_cancelled()
        self._committing = True

    def building(self, resource: str, line: str) -> None:
        """Tell of a build's progress."""
        self._on_progress(Progress("build", f"{resource:<{self._width}}  {line}", passing=True))

    def built(self, resource: Resource, artifact: Artifact, seconds: float, *, unchanged: bool) -> None:
        """Tell that a Resource is built."""
        line = built_line(
            resource.name,
            resource.lane,
            getattr(artifact, "digest", ""),
            seconds,
            self._width,
            unchanged=unchanged,
        )
        self._on_progress(Progress("build", line))

    def uploading(self, done: int, total: int) -> None:
        """Tell how much is there."""
        self.raise_if_cancelled()
        self._on_progress(Progress("upload", f"{size(done)} of {size(total)}", passing=True))

    def step(self, step: str, text: str) -> None:
        """Tell what the service does."""
        self._on_progress(Progress("policy" if step == "policy" else "flip", text))


def _live(document: dict[str, Any]) -> Live:
    addresses = tuple(
        Address(each["resource"], each["lane"], location(each)) for each in document["addresses"]
    )
    return Live(document["deployment"]["id"], addresses)


def _deployment(document: dict[str, Any], flips: Sequence[dict[str, Any]]) -> Deployment:
    back = ""
    if document["live"] and (flip := latest_rollback(flips, document["id"])) is not None:
        reason = f": {flip['message']}" if flip["message"] else ""
        back = f"live again since {local_time(flip['at'])} by {flip['by']}{reason}"
    return Deployment(
        document["id"],
        local_time(document["created"]),
        document["by"],
        document["commit"],
        document["message"],
        document["live"],
        back,
    )
