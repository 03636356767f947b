"""Source of the records of a request: `svc dev` in this folder, or the service."""

from base64 import b64decode
from dataclasses import replace
from pathlib import Path

from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.timeline.recording import decode
from engine.timeline.stored_record import StoredRecord
from svc_tui.capsule.collect import RecordedRequest, read_development, unknown_request
from svc_tui.client.discovery import find_running
from svc_tui.logs.options import resolve_target
from svc_tui.logs.remote import LogQuery, RemoteLogs
from svc_tui.logs.sql import complete_id


def read_request(root: Path, project: str, request_id: str, service: bool | None) -> RecordedRequest:
    """Return a recorded request; `service` is the choice of the user. Raises `SvcError`."""
    credentials = resolve_target(root, service)
    request_id = complete_id(root, credentials, request_id)
    if credentials is None:
        recorded = read_development(root, request_id)
        client = find_running(root / DATA_DIR, "/v1/projects")
        if client is None or recorded.exchange is None:
            return recorded
        with client:
            try:
                found = client.call("GET", f"/v1/projects/{project}/requests/{request_id}/original")
            except SvcError:  # The Console shows a stopped project, and has no credentials.
                return recorded
        if not found["head"]:
            return recorded
        bodies = (b64decode(found[side]) for side in ("request", "response"))
        return replace(recorded, exchange=decode(request_id, found["head"], *bodies))
    entries: list[StoredRecord] = []
    query = LogQuery(filters={"request": request_id})
    RemoteLogs(credentials, project, query, entries.extend, lambda _: None).run()
    if not entries:
        raise unknown_request(request_id)
    return RecordedRequest(request_id, entries, deployed=True)
