"""The jobs Door: it adds and removes jobs of the calling project."""

import asyncio
import base64
import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from doors.jobs.store import ADD, FULL, FULL_HINT, MAX_BODY, MEMBERS, ProjectJobs
from engine.door import Door, DoorContext, DoorRequest, DoorResponse, ProblemKind, problem_response
from engine.errors import SvcError
from engine.stepwise_json import MAX_STEP, TooComplex, parse

MAX_VALUES = 100
"""Maximum values in the document of a request."""
KINDS = {
    "bad-request": ProblemKind(400, "The document has the wrong form, or a member is not valid."),
    "not-found": ProblemKind(404, "The path does not exist."),
    "method-not-allowed": ProblemKind(405, "Only POST is allowed."),
    "jobs-full": ProblemKind(429, "The project has the maximum of jobs."),
}
_MEMBERS = frozenset({*MEMBERS, "base64"})
_FORM = 'The document is {"path": "/resize", "body": "…", "delay_s": 60, "key": "…", "max_tries": 8}.'


class JobsDoor(Door):
    """The Door `jobs`."""

    name = "jobs"
    purpose = "requests that svc sends later, with retries"
    pages = ("guides/build/jobs.md",)
    unit = "job"
    variables = ("SVC_JOBS_ENDPOINT",)
    max_body = 7 * MAX_BODY
    """A body in JSON, each byte of which may be escaped."""
    problems = KINDS

    def open(self, context: DoorContext) -> "OpenJobs":
        """Open the Door for one project, whose Door `tables` is open."""
        return OpenJobs(context)


class OpenJobs(ProjectJobs):
    """The Door of one project, and its jobs. It implements `engine.door.OpenDoor`."""

    async def answer(self, request: DoorRequest) -> DoorResponse:
        operations = {"/v1/add": self._add, "/v1/remove": self._remove}
        try:
            if (operation := operations.get(request.path)) is None:
                available = f"Available: {', '.join(operations)}."
                raise _refused(f"{request.path} does not exist", available, "not-found")
            if request.method != "POST":
                message = f"{request.path} takes POST, not {request.method}"
                raise _refused(message, "", "method-not-allowed")
            return await operation(request)
        except SvcError as error:
            if request.call is not None:
                request.call.code = error.code
            members = {"hint": error.hint} if error.hint else {}
            members["request_id"] = request.caller.request_id
            return problem_response(KINDS[error.code].status, f"jobs:{error.code}", error.message, members)

    async def aclose(self) -> None:
        """Do nothing: the Door `tables` has the file."""

    async def _add(self, request: DoorRequest) -> DoorResponse:
        document = await _read(request, _MEMBERS)
        body: Any = document.get("body", b"")
        if "base64" in document:
            if "body" in document:
                raise _refused("the document has both body and base64", "Pass one of them.")
            try:
                body = base64.b64decode(document["base64"], validate=True)
            except (TypeError, ValueError):
                raise _refused("base64 is not base64", "Pass bytes in base64 with padding.") from None
        if not isinstance(body, str | bytes):
            raise _refused("body is not a text", "Pass a value as the text of its JSON.")
        if (size := len(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body)) > MAX_BODY:
            detail = f"body has {size:,} bytes; the maximum is {MAX_BODY:,}"
            raise _refused(detail, "Store it in a table, and pass its key.")
        if request.call is not None:
            request.call.name = f"add {document.get('path')}"[:200]
        id_ = secrets.token_hex(8)
        job = {"resource": request.caller.resource, **document, "body": body}
        add = ADD, (*map(job.get, MEMBERS), id_)
        find = "SELECT id FROM _svc_jobs WHERE id = $1 OR (key = $2 AND state = 'waiting')"
        answer = await self.ask([add, (find, (id_, job.get("key")))], request)
        result = json.loads(answer.body)
        if answer.status != HTTPStatus.OK:
            detail = str(result["detail"])
            if detail.startswith(FULL):
                raise _refused(FULL.partition(": ")[2], FULL_HINT, "jobs-full")
            if detail.startswith("job: "):
                raise _refused(detail.removeprefix("job: "))
            return answer
        found = result["results"][1]["rows"][0]["id"]
        return DoorResponse(200, json.dumps({"id": found, "added": found == id_}).encode())

    async def _remove(self, request: DoorRequest) -> DoorResponse:
        document = await _read(request, frozenset({"id", "key"}))
        if len(document) != 1:
            raise _refused("the document has neither an id nor a key", 'Pass {"id": "…"}.')
        ((name, value),) = document.items()
        where = "id = $1" if name == "id" else "key = $1 AND state = 'waiting'"
        delete = f"DELETE FROM _svc_jobs WHERE {where}", (value,)
        answer = await self.ask([delete], request)
        if answer.status != HTTPStatus.OK:
            return answer
        removed = json.loads(answer.body)["results"][0]["changes"]
        return DoorResponse(200, json.dumps({"removed": bool(removed)}).encode())


def _refused(message: str, hint: str = _FORM, code: str = "bad-request") -> SvcError:
    return SvcError(message, hint, code=code)


async def _read(request: DoorRequest, members: frozenset[str]) -> Mapping[str, Any]:
    """Return the members of a document, of simple types. The trigger of the table checks their values."""
    try:
        text = str(request.body, "utf-8")
        many = len(text) > MAX_STEP
        document = await asyncio.to_thread(parse, text, MAX_VALUES) if many else json.loads(text)
    except (ValueError, RecursionError, TooComplex) as error:
        raise _refused(f"the document is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise _refused("the document is not an object")
    if unknown := sorted(document.keys() - members):
        raise _refused(f"there is no member {unknown[0]}", f"Available: {', '.join(sorted(members))}.")
    if nested := [name for name, value in document.items() if isinstance(value, dict | list)]:
        raise _refused(f"{nested[0]} is an object or an array")
    return document
