"""SQL over the timeline of a project: of its `svc dev`, read from the file, or of its service."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.manifest.load import load
from engine.timeline import sql as timeline_sql
from engine.timeline.database import timeline_path
from svc_tui.client import Client
from svc_tui.client.credentials import Credentials, open_client


class TimelineSql:
    """A timeline that statements read."""

    def __init__(self, root: Path, client: Client | None) -> None:
        """`client` reaches the service; without one, the file of the project in the folder `root` is read."""
        self._root, self._client = root, client

    def run(self, sql: str, limit: int = timeline_sql.MAX_ROWS) -> Any:
        """Return the result of a SELECT: `columns`, `rows`, `truncated`. Raises `SvcError`."""
        if self._client is None:
            return json.loads(timeline_sql.run(timeline_path(self._root), sql, limit))
        body = {"sql": sql, "limit": limit}
        return self._client.call("POST", f"/v1/projects/{load(self._root).name}/logs/sql", body)


@contextmanager
def open_timeline(root: Path, credentials: Credentials | None) -> Iterator[TimelineSql]:
    """Yield the timeline of the project in a folder: on a service with `credentials`, else of `svc dev`."""
    if credentials is None:
        yield TimelineSql(root, None)
        return
    with open_client(credentials) as client:
        yield TimelineSql(root, client)
