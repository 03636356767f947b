"""SQL over the timeline of a project: of its `svc dev`, read from the file, or of its service."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import InvalidUsage
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


def complete_id(root: Path, credentials: Credentials | None, text: str) -> str:
    """Return the id of the request that begins with a text of 8 characters or more, else the text.

    Raises `SvcError` if several requests begin with it.
    """
    known = credentials is not None or timeline_path(root).exists()
    if not known or not re.fullmatch("[0-9a-z]{8,25}", text):
        return text
    with open_timeline(root, credentials) as timeline:
        sql = f"select distinct request_id from requests where request_id between '{text}' and '{text}~'"
        found = [row["request_id"] for row in timeline.run(f"{sql} order by 1 limit 6")["rows"]]
    if len(found) > 1:
        more = ", …" if len(found) > 5 else ""
        raise InvalidUsage(f"several requests begin with {text}", f"Pass one: {', '.join(found[:5])}{more}.")
    return str(found[0]) if found else text
