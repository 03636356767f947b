"""Deploys for the Console: the steps of `svc deploy`, reported to a screen.

`svc_tui.deploy.uploader` takes seconds to load, so it is imported when a deploy needs it.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import SvcError
from engine.manifest.load import load
from screens.board.deployment import Document
from svc_tui.client.credentials import Credentials, CredentialStore, open_client
from svc_tui.deploy.format import DeployProgress, OnProgress
from svc_tui.terminal.units import plural, size
from svc_tui.user_home import Home

if TYPE_CHECKING:
    from svc_tui.deploy.uploader import Bundle


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The folder of a project, its build cache, and a callback that links it to a service."""

    root: Path
    cache: Path
    link_service: Callable[[str], None]


class ConsoleDeployer:
    """Deploys one project to its service. Implements `Deployer` for the Board."""

    def __init__(self, project: str, login: Callable[[], Credentials], files: ProjectFiles | None) -> None:
        """Create a deployer. `login` raises `NotLoggedIn` without a session. Builds need `files`."""
        self.has_files = files is not None
        self._project = project
        self._login = login
        self._files = files
        self._planned: tuple[Bundle, dict[str, Any]] | None = None
        self._building: tuple[asyncio.AbstractEventLoop, asyncio.Task[Bundle]] | None = None
        self._reporter: _ProgressReporter | None = None
        self._lock = threading.Lock()

    def plan(self, on_progress: OnProgress) -> Document:
        if self._files is None:
            hint = "Run svc in the folder of the project to deploy."
            raise SvcError(f"the files of {self._project} are not in this folder", hint)
        from svc_tui.deploy import uploader

        project = load(self._files.root)
        self._reporter = reporter = _ProgressReporter(on_progress)
        with self._lock:
            self._planned = None
            login = self._login()
            with open_client(login) as client:
                uploader.require_deployer(client, project.name)
                if (unset := uploader.unset_secrets(client, project)) is not None:
                    raise unset
                drifted = uploader.drifted_mounts(client, project)
                reporter.raise_if_canceled()
                bundle = asyncio.run(self._build(uploader.build(project, self._files.cache, reporter)))
                plan = uploader.plan(client, bundle)
            reporter.raise_if_canceled()
        self._planned = bundle, plan
        size = uploader.upload_size(bundle, plan["missing"])
        return {**plan, "service": login.key, "size": size, "drift": drifted}

    async def _build(self, building: "Coroutine[Any, Any, Bundle]") -> "Bundle":
        task = asyncio.ensure_future(building)
        self._building = asyncio.get_running_loop(), task
        try:
            return await task
        except asyncio.CancelledError:
            raise SvcError("the build was canceled", code="canceled") from None
        finally:
            self._building = None

    def run(self, on_progress: OnProgress, *, allow: bool, message: str) -> Document:
        if self._planned is None or self._files is None:
            raise SvcError("the deploy has no plan", "Press r to build and plan.")
        (bundle, plan), files = self._planned, self._files
        from svc_tui.deploy import uploader

        self._reporter = reporter = _ProgressReporter(on_progress)
        login = self._login()
        with open_client(login) as client:
            sent = uploader.upload(client, bundle, plan["missing"], reporter)
            summary = f"{size(sent)} in {plural(len(plan['missing']), 'file')}"
            on_progress(DeployProgress("upload", summary if sent else "nothing to upload"))
            reporter.committing()
            result = uploader.deploy(
                client,
                bundle,
                plan["revision"],
                reporter,
                commit=uploader.commit_of(files.root),
                message=message,
                allow=allow,
                discard=allow,
            )
        files.link_service(login.key)
        self._planned = None
        return result

    def cancel(self) -> bool:
        reporter, building = self._reporter, self._building
        if reporter is None or not reporter.cancel():
            return False
        if building is not None:
            loop, task = building
            with suppress(RuntimeError):  # The build has just ended.
                loop.call_soon_threadsafe(task.cancel)
        return True

    def call(self, method: str, path: str, body: Document | None = None) -> Any:
        with open_client(self._login()) as client:
            return client.call(method, f"/v1/projects/{self._project}{path}", body)


def deployer_for_folder(root: Path, project: str, environ: Mapping[str, str]) -> ConsoleDeployer:
    """Return a deployer for a folder, to its linked service or the one of the current login."""
    logins = CredentialStore.from_environment(environ)
    cache = Home.from_environment(environ).cache()
    files = ProjectFiles(root, cache, lambda key: logins.link_project(root, key))
    return ConsoleDeployer(project, lambda: logins.get(root), files)


class _ProgressReporter:
    """Reports the progress of a deploy; raises `SvcError` at the next step after `cancel`."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._canceled = False
        self._committing = False

    def cancel(self) -> bool:
        """Request cancellation. Return whether the deploy can still be canceled."""
        self._canceled = not self._committing
        return self._canceled

    def raise_if_canceled(self) -> None:
        if self._canceled:
            raise SvcError("the deploy was canceled", code="canceled")

    def committing(self) -> None:
        """Mark the deploy as committing: from now on it cannot be canceled."""
        self.raise_if_canceled()
        self._committing = True

    def __call__(self, event: DeployProgress) -> None:
        if event.step == "upload":
            self.raise_if_canceled()
        self._on_progress(event)
