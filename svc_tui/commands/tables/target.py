"""The tables that a command works on: of the project in this folder, or with --service, on its service."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from engine.manifest.load import find, load
from svc_tui.client import Client
from svc_tui.client.credentials import project_service
from svc_tui.client.discovery import project_client


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


@contextmanager
def open_tables(context: typer.Context) -> Iterator[Tables]:
    """Connect to the control API, starting a local one if needed. Raises `SvcError`.

    `context.obj` is the value of --service.
    """
    connection = project_service() if context.obj else project_client(load(find(Path.cwd())))
    with connection as (client, project):
        yield Tables(client, project.root, f"/v1/projects/{project.name}/")
