"""Where the tables are that a command is about: in the Project here, or on the service."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from engine.errors import SvcError
from engine.manifest.load import find, load
from svc_tui.client import Client
from svc_tui.terminal import prompt


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one Project, behind a control API. Every method raises `SvcError`."""

    client: Client
    root: Path
    _path: str

    def get(self, path: str, **params: Any) -> Any:
        """Return the document at a path below the Project."""
        return self.client.call("GET", self._path + path, params=params)

    def post(self, path: str, body: Any) -> Any:
        """Send a document, and return the one that answers."""
        return self.client.call("POST", self._path + path, body)

    def upload(self, path: str, pieces: Iterable[bytes], **params: Any) -> Iterator[Any]:
        """Send a file, and yield the documents that answer."""
        return self.client.lines("POST", self._path + path, params=params, content=pieces)

    def download(self, path: str, **params: Any) -> AbstractContextManager[Iterator[bytes]]:
        """Give the bytes of a file as they come."""
        return self.client.download(self._path + path, params=params)


@dataclass(frozen=True, slots=True)
class Place:
    """What was said on the command line of where the tables are."""

    service: bool = False

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        """Give the tables. Raises `SvcError`."""
        project = load(find(Path.cwd()))
        with self._client(project) as client:
            yield Tables(client, project.root, f"/v1/projects/{project.name}/")

    def _client(self, project: Any) -> AbstractContextManager[Client]:
        if self.service:
            from svc_tui.client.credentials import CredentialStore, open_client

            return open_client(CredentialStore.from_environment(os.environ).get(project.root))
        # The control API is behind it, which takes half a second to load.
        from svc_tui.client.local import project_client

        return project_client(project)


def place(context: typer.Context) -> Place:
    """Return where the tables of a command are."""
    return context.obj if isinstance(context.obj, Place) else Place()


def agree(question: str, *, yes: bool) -> None:
    """Ask a person before rows are lost. Raises `SvcError` when the answer is not yes, or nobody is there."""
    if yes:
        return
    try:
        answer = prompt.line(f"{question} [y/N]")
    except prompt.NotInteractive as error:
        raise SvcError(f"{question}: nobody is there to answer", "Say --yes.", code="usage") from error
    if answer.lower() not in ("y", "yes"):
        raise SvcError("nothing was changed", "Answer y, or say --yes, to have it done.")
