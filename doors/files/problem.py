"""Problems of requests for files, and their HTTP responses."""

from engine.door import DoorResponse, ProblemKind, problem_response
from engine.errors import SvcError

KINDS = {
    "bad-request": ProblemKind(400, "An option, a header or a number is not valid."),
    "bad-key": ProblemKind(400, "The key is not valid."),
    "length-mismatch": ProblemKind(400, "The body is longer or shorter than its content-length."),
    "incomplete": ProblemKind(400, "The body ended early. Nothing was stored."),
    "bad-signature": ProblemKind(403, "The signed URL was altered, has expired, or is for another request."),
    "not-found": ProblemKind(404, "The file or the path does not exist."),
    "method-not-allowed": ProblemKind(405, "The path has no such method."),
    "precondition": ProblemKind(412, "The file does not meet the condition of the request."),
    "too-large": ProblemKind(413, "The file or its metadata is over its limit."),
    "range": ProblemKind(416, "The file has no bytes in this range."),
    "storage": ProblemKind(500, "The file or the index cannot be read or written."),
    "file-damaged": ProblemKind(500, "The bytes of the file changed on disk, or are missing."),
    "busy": ProblemKind(503, "Another writer is active; try again in a moment."),
    "unavailable": ProblemKind(503, "The fleet does not answer; try again in a moment."),
    "storage-full": ProblemKind(507, "The disk is full."),
    "storage-quota": ProblemKind(507, "The files, or the tables, have reached the quota of their project."),
}


class FileError(SvcError):
    """A file cannot be read or written; `code` is one of `KINDS`."""


def not_found(key: str) -> FileError:
    """Return the error for a key without a file."""
    return FileError(f"there is no file {key!r}", code="not-found")


def problem(error: SvcError, request_id: str) -> DoorResponse:
    """Return the problem document of an error. Codes of other modules have the status of their kind."""
    code = {"blob-damaged": "file-damaged", "blob-missing": "file-damaged"}.get(error.code, error.code)
    code = code if code in KINDS else "storage"
    members = {"request_id": request_id}
    if error.hint and isinstance(error, FileError):
        members["hint"] = error.hint
    return problem_response(KINDS[code].status, f"files:{code}", error.public_message, members)
