"""Source of the records of a request: `svc dev` in this folder, or the service."""

from pathlib import Path

from engine.timeline.stored_record import StoredRecord
from svc_tui.capsule.collect import RecordedRequest, read_development, unknown_request
from svc_tui.logs.options import resolve_target
from svc_tui.logs.remote import LogQuery, RemoteLogs


def read_request(root: Path, project: str, request_id: str, service: bool | None) -> RecordedRequest:
    """Return a recorded request; `service` is the choice of the user. Raises `SvcError`."""
    credentials = resolve_target(root, service)
    if credentials is None:
        return read_development(root, request_id)
    entries: list[StoredRecord] = []
    query = LogQuery(filters={"request": request_id})
    RemoteLogs(credentials, project, query, entries.extend, lambda _: None).run()
    if not entries:
        raise unknown_request(request_id)
    return RecordedRequest(request_id, entries, deployed=True)
