"""The tables that a command works on: of the project here, or of one on a service."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from engine.manifest.load import find, load
from svc_tui.client import Client
from svc_tui.terminal import prompt


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one project, behind a control API. Every method raises `SvcError`."""

    client: Client
    root: Path
    _path: str

    def get(self, path: str, **params: Any) -> Any:
        """Return the document at a path below the project."""
        return self.client.call("GET", self._path + path, params=params)

    def post(self, path: str, body: Any) -> Any:
        """Send a document and return the answer."""
        return self.client.call("POST", self._path + path, body)

    def upload(self, path: str, chunks: Iterable[bytes], **params: Any) -> Iterator[Any]:
        """Send a file and yield the documents of the answer."""
        return self.client.lines("POST", self._path + path, params=params, content=chunks)

    def download(self, path: str, **params: Any) -> AbstractContextManager[Iterator[bytes]]:
        """Return a context manager that yields the bytes of a file."""
        return self.client.download(self._path + path, params=params)


@dataclass(frozen=True, slots=True)
class Target:
    """The project whose tables a command uses: the one here, or, with `service`, on the service."""

    service: bool = False

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        """Connect to the control API, starting a local one if needed. Raises `SvcError`."""
        project = load(find(Path.cwd()))
        with self._client(project) as client:
            yield Tables(client, project.root, f"/v1/projects/{project.name}/")

    def _client(self, project: Any) -> AbstractContextManager[Client]:
        if self.service:
            from svc_tui.client.credentials import CredentialStore, open_client

            return open_client(CredentialStore.from_environment(os.environ).get(project.root))
        # This imports the control API, which takes half a second.
        from svc_tui.client.discovery import project_client

        return project_client(project)


def target(context: typer.Context) -> Target:
    """Return the target of a command."""
    return context.obj if isinstance(context.obj, Target) else Target()


def confirm(question: str, *, yes: bool) -> None:
    """Ask before rows are deleted, unless `yes`. Raises `SvcError` if the answer is not yes."""
    if not yes:
        prompt.confirm(question)
